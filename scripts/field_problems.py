"""What scripts/compare_cupy and scripts/compare_scipy share: problems of fields as Plumb writes them."""
import re

# Plumb's boundaries, by SciPy's names.
MODES = {"zeros": "constant", "periodic": "wrap", "reflect": "mirror", "symmetric": "reflect", "clamp": "nearest"}
AXES = "dhw"


def parse(text):
    """Sizes of a problem in benchdnn's notation as Plumb writes it: everything is there."""
    body, _, boundary = text.partition("_pad")
    fields = {key: int(value) for key, value in re.findall(r"([a-z]+)(\d+)", body)}
    axes = [axis for axis in AXES if f"i{axis}" in fields]
    boundaries = (boundary or "zeros").split("/")
    boundaries = boundaries * len(axes) if len(boundaries) == 1 else boundaries[-len(axes):]
    along = lambda key: [fields.get(f"{key}{axis}", 0) for axis in axes]
    return {"n": fields["mb"], "channels": (fields["ic"], fields["oc"]), "image": along("i"), "filter": along("k"),
            "output": along("o"), "before": along("p"), "boundaries": boundaries}
