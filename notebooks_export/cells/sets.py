def parse_roc(text):
    table = pd.read_csv(io.StringIO(text), dtype={"variant": str, "set": str}, keep_default_na=False)
    return table.astype({"far": float, "tar": float})


verified = [
    {"variant": variant["name"], **each}
    for variant in variants
    for each in (variant["evaluation"] or {}).get("sets") or []
    if "accuracy" in each
]
if verified:
    table = pd.DataFrame(
        {
            "set": [each["name"] for each in verified],
            "pairs": [each["pairs"] for each in verified],
            "accuracy (%)": [percent(each["accuracy"]) for each in verified],
            "deviation (%)": [percent(each["deviation"]) for each in verified],
            "threshold": [each["threshold"] for each in verified],
        },
        index=pd.Index([each["variant"] for each in verified], name="variant"),
    )
    show_table(table.style.format({"accuracy (%)": "{:.2f}", "deviation (%)": "{:.2f}", "threshold": "{:.3f}"}, escape="html"))
    roc = read_results("roc.csv", parse_roc)
    figure, axis = plt.subplots(figsize=(page_width, 4.6))
    set_names = list(roc["set"].unique())
    least = roc.loc[roc["far"] > 0, "far"].min()
    groups = list(roc.groupby(["variant", "set"], sort=False))
    for i, ((variant, name), curve) in enumerate(groups):
        # A rate of 0 has no place on a logarithmic axis: the curve begins at the least rate that some pairs can show.
        colour = shades[(names.index(variant) if variant in names else 0) % len(shades)]
        axis.step(curve["far"].clip(lower=least), curve["tar"], where="post", color=colour,
                  linestyle=strokes[set_names.index(name) % len(strokes)], linewidth=width_of(i, len(groups), extra=1),
                  label=plain(variant) + (f", {plain(name)}" if len(set_names) > 1 else ""))
    axis.plot(*[[least * (1 / least) ** (i / 100) for i in range(101)]] * 2, color="black", linewidth=1, linestyle=":",
              label="chance")
    axis.set_xscale("log")
    axis.set_xlim(least, 1)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("false accept rate (FAR)")
    axis.set_ylabel("true accept rate (TAR)")
    axis.grid(alpha=0.3)
    legend_above(axis)
    show_figure(figure, "roc", "Receiver operating characteristic of each variant on each set of pairs")
