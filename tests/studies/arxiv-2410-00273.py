"""The numbers of tests/studies/arxiv-2410-00273.md: searches of GPT3-1T and the ViT of 64,800 tokens.

  python3 tests/studies/arxiv-2410-00273.py out.json      # from the repository's root, build/isobar built; about 5 minutes
"""
import json, subprocess, sys

M={'A100':('dgx-a100',8),'H200':('dgx-h200',8),'B200':('dgx-b200',8)}
def run(model,mach,nvs,gpus,space='all',what=()):
    m,n=M[mach]; cmd=['build/isobar','search',f'configs/models/{model}.yaml','--machine',f'configs/machines/{m}.yaml','--gpus',str(gpus),'--global-batch','4096','--json','--space',space,'--set','policy.recompute=none','--set','policy.zero=0']
    if nvs!=n: cmd+=['--what-if',f'nvlink_ranks*{nvs/n}']
    for w in what: cmd+=['--what-if',w]
    p=subprocess.run(cmd,capture_output=True,text=True)
    if p.returncode: return None,p.stderr.strip()[-200:]
    return json.loads(p.stdout),''
out={}
def lay(j):
    l=j['layout']; s=f"tp{l['tp']}"+(f" cp{l['cp']}" if l['cp']>1 else '')+f" pp{l['pp']}"+(f"x{l['vpp']}" if l['vpp']>1 else '')+f" dp{l['dp']}"
    if l['recompute']!='none': s+=' '+l['recompute']
    return s
for model in ('gpt3-1t','vit-era5-64800'):
  for space in ('all','1d'):
    for mach in M:
      for nvs in (4,8,64):
        for g in (1024,4096,16384):
          j,e=run(model,mach,nvs,g,space)
          out[f'{model}|{space}|{mach}|{nvs}|{g}']=dict(step=j['step_s'],layout=lay(j),mem=j['memory_total_bytes']/1e9,terms={t['name']:t['seconds'] for t in j['terms']}) if j else dict(err=e)
  json.dump(out,open(sys.argv[1],'w'))
for model,g in (('gpt3-1t',1024),('gpt3-1t',16384),('vit-era5-64800',4096)):
  for w in ('','flops*2','memory_size*0.5','memory_size*2','memory_bw*0.5','nvlink_bw*0.5','nvlink_bw*2','net_bw*0.5','net_bw*2','nvlink_ranks*0.5','nvlink_ranks*8'):
    j,e=run(model,'B200',8,g,'all',[w] if w else [])
    out[f'sens|{model}|{g}|{w}']=dict(step=j['step_s'],layout=lay(j)) if j else dict(err=e)
json.dump(out,open(sys.argv[1],'w'))
