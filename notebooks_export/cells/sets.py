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
    display(table.style.format({"accuracy (%)": "{:.2f}", "deviation (%)": "{:.2f}", "threshold": "{:.3f}"}))
    roc = read_results("roc.csv", parse_roc)
    figure, axis = plt.subplots(figsize=(7, 5), layout="constrained")
    styles = {name: ["-", "--", "-.", ":"][i % 4] for i, name in enumerate(roc["set"].unique())}
    least = roc.loc[roc["far"] > 0, "far"].min()
    for (variant, name), curve in roc.groupby(["variant", "set"], sort=False):
        # A rate of 0 has no place on a logarithmic axis: the curve begins at the least rate that some pairs can show.
        color = f"C{names.index(variant)}" if variant in names else "C0"
        axis.step(curve["far"].clip(lower=least), curve["tar"], where="post", color=color, linestyle=styles[name],
                  label=f"{plain(variant)}, {plain(name)}")
    axis.set_xscale("log")
    axis.set_ylim(0, 1.02)
    axis.set_title("Receiver operating characteristic")
    axis.set_xlabel("false accept rate (FAR)")
    axis.set_ylabel("true accept rate (TAR)")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    plt.show()

    evaluated = pd.DataFrame(
        [
            (line.variant, name, line.step, accuracy)
            for line in metrics.itertuples()
            if isinstance(line.accuracy, dict)
            for name, accuracy in line.accuracy.items()
        ],
        columns=["variant", "set", "step", "accuracy"],
    )
    if evaluated["step"].nunique() > 1:
        figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
        for (variant, name), points in evaluated.groupby(["variant", "set"], sort=False):
            color = f"C{names.index(variant)}" if variant in names else "C0"
            axis.plot(points["step"], 100 * points["accuracy"], marker="o", markersize=3, color=color,
                      linestyle=styles.get(name, "-"), label=f"{plain(variant)}, {plain(name)}")
        axis.set_title("Accuracy during training")
        axis.set_xlabel("step")
        axis.set_ylabel("accuracy (%)")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
        plt.show()
