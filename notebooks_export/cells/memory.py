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
    budgets = [budget_of(name) for name in measured]
    # A budget far above all bars would make them invisible: it is then only named.
    drawn_budgets = [budget if budget <= 3 * totals.max() else 0 for budget in budgets]
    most = max([totals.max(), *drawn_budgets])
    unit, size = binary_unit(most)
    columns = min(len(measured), 3)
    rows = math.ceil(len(measured) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(page_width, 0.6 + 2.6 * rows), sharey=True, squeeze=False)
    for axis in axes.flat[len(measured) :]:
        axis.set_visible(False)
    for axis, name, budget in zip(axes.flat, measured, drawn_budgets):
        ranks = memory[memory["variant"] == name].pivot(index="rank", columns="category", values="bytes")
        below = pd.Series(0.0, index=ranks.index)
        for category, colour in colours.items():
            axis.bar(ranks.index, ranks[category] / size, bottom=below, color=colour, label=category)
            below += ranks[category] / size
        mean = below[below > 0].mean()  # without ranks whose processes have ended
        axis.axhline(mean, color="black", linewidth=1, linestyle=":")
        if budget:
            axis.axhline(budget / size, color="black", linewidth=1.5, linestyle="--")
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
    if any(drawn_budgets):
        handles.append(plt.Line2D([], [], color="black", linewidth=1.5, linestyle="--"))
        labels.append("budget")
    elif any(budgets):
        handles.append(plt.Line2D([], [], linestyle=""))
        labels.append(f"budget: {max(budgets) / size:,.0f} {unit}, above")
    legend_of_all(figure, handles, labels, columns=4)
    show_figure(figure, "memory", "Peak memory of each rank, by category")
    if hidden:
        print(f"{len(hidden)} more variants are in memory.csv.")
else:
    print("No variant has measured its memory.")
