colours = {
    "parameters": "#0072B2",
    "gradients": "#56B4E9",
    "optimizer": "#009E73",
    "activations": "#E69F00",
    "workspace": "#999999",
    "communication": "#D55E00",
}
max_bars = 40
measured = [name for name in names if (memory["variant"] == name).any()]
hidden = measured[max_bars:]
measured = measured[:max_bars]
if measured:
    unit, size = binary_unit(totals.max())
    columns = min(len(measured), 3)
    rows = math.ceil(len(measured) / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(max(3.2 * columns, 5), 3.2 * rows), sharey=True, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(measured) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, measured):
        ranks = memory[memory["variant"] == name].pivot(index="rank", columns="category", values="bytes")
        below = pd.Series(0.0, index=ranks.index)
        for category, colour in colours.items():
            axis.bar(ranks.index, ranks[category] / size, bottom=below, color=colour, label=category)
            below += ranks[category] / size
        mean = below.mean()
        axis.axhline(mean, color="black", linewidth=1, linestyle=":", label="mean of the ranks")
        status = variants[names.index(name)]["status"]
        title = plain(name) if status == "ok" else f"{plain(name)} ({status})"
        axis.set_title(f"{title}\nmax/mean {below.max() / mean:.2f}" if mean > 0 else title)
        axis.set_xlabel("rank")
        axis.set_xticks(ranks.index[:: math.ceil(len(ranks) / 16)])
        centre, half = (ranks.index.min() + ranks.index.max()) / 2, max(len(ranks), 3) / 2
        axis.set_xlim(centre - half, centre + half)
        axis.grid(axis="y", alpha=0.3)
    axes[0, 0].set_ylim(0, max(totals.max() / size, 1e-9) * 1.06)
    for row in axes:
        row[0].set_ylabel(f"memory, {unit}")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes[0, -1].legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    plt.show()
    if hidden:
        print(f"{len(hidden)} more variants are in memory.csv.")
else:
    print("No variant has measured its memory.")
