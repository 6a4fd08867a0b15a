paint = {
    "load": "#C7B8A3",
    "forward (F)": "#4C9BD6",
    "recompute (R)": "#A9CFEC",
    "head (H)": "#CC79A7",
    "backward (B)": "#E69F00",
    "input gradient (I)": "#F0C24B",
    "weight gradient (W)": "#3FA77A",
    "optimizer": "#666C75",
    "other": "#8F63B8",
    "to and from the host (O, L)": "#5C6F8F",
    "waiting, messages": "#B4B9C1",
}
thin = {"to and from the host (O, L)", "waiting, messages"}  # beside what the rank computes
by_letter = {"F": "forward (F)", "R": "recompute (R)", "H": "head (H)", "J": "head (H)", "S": "head (H)",
             "T": "head (H)", "B": "backward (B)", "I": "input gradient (I)", "W": "weight gradient (W)"}
by_word = {"forward": "forward (F)", "backward": "backward (B)", "load": "load", "optimizer": "optimizer",
           "loader wait": "waiting, messages"}


def kind_of(span):
    """What a span of trace.json is, and the micro-batch that it says."""
    if span["cat"] == "communication":
        is_offload_or_load = re.fullmatch(r"\d+[OL]\d+", span["name"])
        return "to and from the host (O, L)" if is_offload_or_load else "waiting, messages", ""
    action = re.fullmatch(r"\d+([FRHJSTBIW])(\d+)", span["name"])
    if action:
        return by_letter[action[1]], action[2]
    return ("head (H)" if span["name"].startswith("head") else by_word.get(span["name"], "other")), ""


def last_step(spans):
    """The last traced step: what lies after the end of the step before, on each rank."""
    step = {}
    # A forward pass has no optimizer: it ends when all ranks are done.
    end = "optimizer" if (spans["name"] == "optimizer").any() else "barrier"
    for rank, own in spans.groupby("pid"):
        ends = (own["ts"] + own["dur"])[own["name"] == end]
        if len(ends):
            begin = ends.iloc[-2] if len(ends) > 1 else -math.inf
            inside = (own["ts"] >= begin - 1e-3) & (own["ts"] + own["dur"] <= ends.iloc[-1] + 1e-3)
            step[rank] = own[inside]
    return step


def parse_trace(text):
    events = json.loads(text)["traceEvents"]
    return pd.DataFrame([{**span, "variant": span["args"]["variant"]} for span in events if span["ph"] == "X"],
                        columns=["variant", "name", "cat", "pid", "ts", "dur"])


spans = read_results("trace.json", parse_trace) if Path("trace.json").exists() else parse_trace('{"traceEvents": []}')
steps = {name: last_step(own) for name, own in spans.groupby("variant", sort=False)}
max_variants, max_ranks = 16, 32
drawn = [name for name in names if steps.get(name)][:max_variants]


def page_data():
    """What timeline.js draws: for each rank of each variant, spans as [begin, end, index of the kind, number, name]."""
    groups = []
    kinds = list(paint)
    for name in drawn:
        rows = []
        for rank in ranks_of[name]:
            own = steps[name][rank].sort_values("dur", ascending=False)
            spans = []
            for span in own[own["dur"] >= shortest].to_dict("records"):
                kind, number = kind_of(span)
                begin = (span["ts"] - begins[name]) / size
                spans.append([round(begin, 6), round(begin + span["dur"] / size, 6), kinds.index(kind), number, span["name"]])
            rows.append({"label": str(rank), "spans": spans})
        groups.append({"title": name, "rows": rows})
    looks = [{"name": kind, "colour": colour, "thin": kind in thin} for kind, colour in paint.items()]
    return {"unit": unit, "row": "rank", "kinds": looks, "groups": groups}


if drawn:
    every = {name: math.ceil(len(steps[name]) / max_ranks) for name in drawn}
    ranks_of = {name: sorted(steps[name])[:: every[name]] for name in drawn}
    begins = {name: min(own["ts"].min() for own in steps[name].values()) for name in drawn}
    longest = max((own["ts"] + own["dur"]).max() - begins[name] for name in drawn for own in steps[name].values())
    unit, size = ("s", 1e6) if longest > 2e6 else ("ms", 1e3)
    durations = pd.concat([steps[name][rank]["dur"] for name in drawn for rank in ranks_of[name]])
    max_spans = 30_000  # of the page; the shortest ones are left out
    shortest = durations.nlargest(max_spans).min() if len(durations) > max_spans else 0
    heights = [0.45 + 0.22 * len(ranks_of[name]) for name in drawn]
    figure, axes = plt.subplots(len(drawn), 1, figsize=(page_width, sum(heights) + 0.9), sharex=True, squeeze=False,
                                height_ratios=heights)
    seen = set()
    for axis, name in zip(axes.flat, drawn):
        shown = ranks_of[name]
        for row, rank in enumerate(shown):
            boxes = {}
            # A span may hold others: the longer ones are drawn first.
            for span in steps[name][rank].sort_values("dur", ascending=False).to_dict("records"):
                kind, number = kind_of(span)
                box = ((span["ts"] - begins[name]) / size, span["dur"] / size)
                boxes.setdefault(kind, []).append(box)
                if number and span["dur"] > 0.015 * len(number) * longest and len(shown) <= 16:
                    axis.text(box[0] + box[1] / 2, row, number, ha="center", va="center_baseline", fontsize=7,
                              color="white" if kind == "weight gradient (W)" else "#111111", zorder=4)
            for kind, of_kind in boxes.items():
                is_thin = kind in thin
                axis.broken_barh(of_kind, (row - (0.18 if is_thin else 0.44), 0.36 if is_thin else 0.88),
                                 color=paint[kind], edgecolor="white", linewidth=0 if is_thin else 0.4,
                                 zorder=2 if is_thin else 3)
                seen.add(kind)
        axis.set_yticks(range(len(shown)), shown if len(shown) <= 16 else [""] * len(shown), fontsize=8)
        axis.set_ylim(len(shown) - 0.4, -0.6)
        note = f", every {every[name]}th of {len(steps[name])} ranks" if every[name] > 1 else ""
        axis.set_title(plain(name) + note, fontsize=9, loc="left", pad=3)
        axis.set_ylabel("rank", fontsize=8)
        axis.grid(axis="x", alpha=0.3)
        axis.spines["left"].set_visible(False)
        axis.spines["bottom"].set_visible(axis is axes[-1, 0])
        axis.tick_params(axis="both" if axis is not axes[-1, 0] else "y", length=0)
    axes[-1, 0].set_xlim(0, 1.005 * longest / size)
    axes[-1, 0].set_xlabel(f"time in the step ({unit})")
    shown_kinds = [kind for kind in paint if kind in seen]
    handles = [plt.Rectangle((0, 0), 1, 1, color=paint[kind]) for kind in shown_kinds]
    legend_of_all(figure, handles, shown_kinds, columns=4)
    data = json.dumps(page_data()).replace("<", "\\u003c")
    still = figure_html(figure, "timeline", "What each rank did in the last step that was traced")
    display(HTML(f'<div class="heddle-timeline"><script type="application/json">{data}</script>{still}</div>'))
    hidden = sum(1 for name in names if steps.get(name)) - len(drawn)
    if hidden:
        print(f"{hidden} more variants are in trace.json.")
else:
    print("No step of any variant was traced to its end.")
