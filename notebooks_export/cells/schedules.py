# `heddle notebook` draws them before it runs this: schedule-1.svg, ..
pictures = sorted(Path("figures").glob("schedule-*.svg"), key=lambda path: int(path.stem.split("-")[1]))
for picture in pictures:
    svg = picture.read_text(encoding="utf-8")
    link = f'<a href="figures/{picture.name}">SVG</a>'
    display(HTML(f'<figure><div class="wide paper">{svg}</div><figcaption>{link}</figcaption></figure>'))
if not pictures:
    print("There are no pictures of schedules.")
