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
    ranks_of = {name: sorted(set(memory[memory["variant"] == name]["rank"])) for name in measured}
    budgets = {(name, rank): budget_of(name, rank) for name in measured for rank in ranks_of[name]}
    # A budget far above all bars would make them invisible: it is then only named.
    drawn_budgets = {key: budget for key, budget in budgets.items() if 0 < budget <= 3 * totals.max()}
    most = max([totals.max(), *drawn_budgets.values()])
    unit, size = binary_unit(most)
    columns = min(len(measured), 3)
    rows = math.ceil(len(measured) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(page_width, 0.6 + 2.6 * rows), sharey=True, squeeze=False)
    for axis in axes.flat[len(measured) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, measured):
        ranks = memory[memory["variant"] == name].pivot(index="rank", columns="category", values="bytes")
        below = pd.Series(0.0, index=ranks.index)
        for category, colour in colours.items():
            axis.bar(ranks.index, ranks[category] / size, bottom=below, color=colour, label=category)
            below += ranks[category] / size
        mean = below[below > 0].mean()  # without ranks whose processes have ended
        axis.axhline(mean, color="black", linewidth=1, linestyle=":")
        drawn = [drawn_budgets.get((name, rank), 0) / size for rank in ranks.index]
        if any(drawn) and min(drawn) == max(drawn):
            axis.axhline(drawn[0], color="black", linewidth=1.5, linestyle="--")
        else:
            for rank, budget in zip(ranks.index, drawn):
                if budget:
                    axis.plot([rank - 0.5, rank + 0.5], [budget, budget], color="black", linewidth=1.5, linestyle="--")
        status = variants[names.index(name)]["status"]
        title = plain(name) if status == "ok" else f"{plain(name)} ({status})"
        axis.set_title(f"{title}\nmax/mean {below.max() / mean:.2f}" if mean > 0 else title)
        axis.set_xlabel("rank")
        axis.set_xticks(ranks.index[:: math.ceil(len(ranks) / 8)])
        centre, half = (ranks.index.min() + ranks.index.max()) / 2, max(len(ranks), 3) / 2
        axis.set_xlim(centre - half, centre + half)
        axis.grid(axis="y", alpha=0.3)
    axes[0, 0].set_ylim(0, max(most / size, 1e-9) * 1.06)
    for row in axes:
        row[0].set_ylabel(f"peak memory ({unit})")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], color="black", linewidth=1, linestyle=":"))
    labels.append("mean of the ranks")
    if drawn_budgets:
        handles.append(plt.Line2D([], [], color="black", linewidth=1.5, linestyle="--"))
        labels.append("budget")
    elif any(budgets.values()):
        handles.append(plt.Line2D([], [], linestyle=""))
        labels.append(f"budget: {max(budgets.values()) / size:,.0f} {unit}, above")
    legend_of_all(figure, handles, labels, columns=4)
    show_figure(figure, "memory", "Peak memory of each rank, by category")
    if hidden:
        print(f"{len(hidden)} more variants are in memory.csv.")
else:
    print("No variant has measured its memory.")
