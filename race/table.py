import json,sys
rows={}
for p in sys.argv[1:]:
    for l in open(p):
        d=json.loads(l); r=rows.setdefault((d['name'] or d['problem'],d['dtype']),{})
        if d['kind']=='planned': r['planned']=(d['ms'],d['kernel'])
        else:
            k=d['kernel']
            if k not in r or d['ms']<r[k][0]: r[k]=(d['ms'],'%s t%s run%d/%d q%s e%.0e p%.3f'%(k,'x'.join(map(str,d['threads'])),d['tile'][0],d['run'],d['queue'],d['error'],d['predicted_ms']))
for (n,t),r in rows.items():
    best=min((v for k,v in r.items() if k!='planned'),default=(0,''))
    print(f"{n:28s} {t} planned {r.get('planned',(0,''))[0]:.3f} {r.get('planned',(0,''))[1]:8s} best {best[0]:.3f} {best[1]} |",' '.join(f'{k} {v[0]:.3f}' for k,v in r.items() if k!='planned'))
