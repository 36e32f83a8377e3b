"""The style of the pages: colours for light and dark screens, figures and pictures that scroll on a narrow one."""

# The colours of Okabe and Ito, or close to them: told apart by people who see red and green alike, and by their light.
STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --card: #f6f8fa;
  --productive: #56b4e9; --starting: #e6c700; --held: #c44400; --lost: #9a5fb5; --free: #eaeef2;
  --s0: #0072b2; --s1: #d55e00; --s2: #b88600; --s3: #a84f84; --s4: #00805d; --s5: #59636e;
  --n1: #0072b2; --n2: #56b4e9; --n3: #e69f00; --n4: #d55e00 }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #e6edf3; --soft: #9198a1; --line: #3d444d;
  --card: #151b23; --productive: #2f86bd; --starting: #f0e442; --held: #ff7a33; --lost: #b07cc6; --free: #212830;
  --s0: #56b4e9; --s1: #ff7a33; --s2: #e69f00; --s3: #d98cb3; --s4: #2fc79a; --s5: #9198a1;
  --n1: #2f86bd; --n2: #8fd0f5; --n3: #e69f00; --n4: #ff7a33 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", Arial, sans-serif }
main { max-width: 1160px; margin: 0 auto; padding: 32px 40px 56px }
h1 { font-size: 26px; margin: 0 0 4px } h2 { font-size: 19px; margin: 44px 0 4px }
h3 { font-size: 15px; margin: 18px 0 2px }
p { margin: 0 0 10px; color: var(--soft); max-width: 78ch } p.facts { color: var(--text); max-width: none }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin: 24px 0 }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px }
.card h3 { margin: 0 0 8px; overflow-wrap: anywhere }
.card b { display: block; font-size: 21px; line-height: 1.25; font-variant-numeric: tabular-nums }
.card span { display: block; color: var(--soft); font-size: 13px; margin-bottom: 8px } .card .bad { color: var(--held) }
svg { width: 100%; min-width: 760px; height: auto; display: block } svg text { fill: var(--text); font-size: 14px }
svg .small { fill: var(--soft); font-size: 12.5px } svg .label { font-weight: 600 } svg .note { fill: var(--soft) }
.entitled { fill: none; stroke: var(--s1); stroke-width: 1.6 } .mark { stroke: var(--soft); stroke-dasharray: 4 3 }
.grid { stroke: var(--line); stroke-width: 1; opacity: .7 } .free { fill: var(--free) }
.productive { fill: var(--productive) } .starting { fill: var(--starting) } .held { fill: var(--held) }
.lost { fill: var(--lost) }
.legend { display: flex; flex-wrap: wrap; gap: 18px; font-size: 13px; color: var(--soft); margin: 6px 0 10px }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px }
.span-1 { fill: var(--n1) } .span-2 { fill: var(--n2) } .span-3 { fill: var(--n3) } .span-4 { fill: var(--n4) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: 8px 0 4px }
th, td { text-align: right; padding: 6px 10px; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { color: var(--soft); font-weight: 600; font-size: 13px }
td:first-child { min-width: 8em; max-width: 22em; white-space: normal; overflow-wrap: anywhere }
table.words td { text-align: left; white-space: normal; min-width: 7em; overflow-wrap: anywhere }
table.words th { text-align: left }
.verdict { color: var(--text); font-size: 17px } .why { color: var(--text) }
.scroll { overflow-x: auto } .narrow { display: none } .rule { margin: 0; font-size: 13px }
footer { margin-top: 44px; color: var(--soft); font-size: 13px }
@media (max-width: 640px) { .narrow { display: block } .wide { display: none } .phone svg { min-width: 0 }
  main { padding: 20px 16px 40px } h1 { font-size: 22px } h2 { margin-top: 32px }
  .cards { grid-template-columns: 1fr; gap: 10px } th, td { padding: 5px 8px } h3 { overflow-wrap: anywhere }
  th:first-child, td:first-child { position: sticky; left: 0; background: var(--page); font-size: 13px }
  td:first-child { max-width: 11em } }
""" + "\n".join(
    f".series-{number} line {{ stroke: var(--s{number}); stroke-width: 6; stroke-linecap: round; opacity: .38 }} "
    f".series-{number} .end {{ stroke-width: 2.5; opacity: .9 }} .series-{number} circle {{ fill: var(--s{number}) }}"
    for number in range(6)
)
