columns = [
    ("seconds", "step time (s)", 1),
    ("memory", "peak memory (MiB)", 2**20),
    ("sent", "bytes sent per step (MiB)", 2**20),
]
label_of = {"classes": "classes C", "ranks": "ranks k", "rate": "share of the classes in each step"}
text_of = {"classes": "{:,.0f} classes", "ranks": "{:g} ranks", "batch": "batch {:,.0f}",
           "classes a rank": "{:,.0f} classes per rank", "batch a rank": "batch {:,.0f} per rank"}


def draw(axis, own, varying, what, unit):
    for way in ways:
        for rate in [None] if varying == "rate" else shown_rates:
            curve = curve_of(own, varying, way, rate)
            curve = curve[curve["is_timed"] if what == "seconds" else curve[what] > 0]
            if len(curve) < 2:
                continue
            is_exact = rate in (None, 1.0)
            for is_run, some in curve.groupby("is_run"):
                axis.plot(some[varying], some[what] / unit, "o" if is_exact else "^", color=colour_of[way],
                          markersize=5.5, markerfacecolor=colour_of[way] if is_run else "white", zorder=3)
            axis.plot(curve[varying], curve[what + " formula"] / unit, color=colour_of[way], linewidth=1.2,
                      linestyle="-" if is_exact else "--")
    if what == "memory":
        for column, style, rate in (("published", ":", 1.0), ("published, sparse", "-.", shown_rates[-1])):
            for way in ways:
                curve = curve_of(own, varying, way, None if varying == "rate" else rate)
                if len(curve) > 1:
                    axis.plot(curve[varying], curve[column] / unit, color="black", linewidth=1, linestyle=style)
                    break


if series:
    figure, axes = plt.subplots(len(series), 3, figsize=(page_width, 2.4 * len(series) + 1.4), squeeze=False)
    for row, (title, varying, fixed, own) in zip(axes, series):
        for axis, (what, label, unit) in zip(row, columns):
            draw(axis, own, varying, what, unit)
            axis.set_xscale("log", base=2 if varying == "ranks" else 10)
            drawn = [y for line in axis.lines for y in line.get_ydata() if y > 0]
            if drawn and max(drawn) > 3 * min(drawn):
                axis.set_yscale("log")
            else:
                axis.set_ylim(0, 1.15 * max(drawn, default=1))
            if varying == "ranks":
                ticks = sorted(own[varying].unique())
                axis.set_xticks(ticks, [f"{k:g}" for k in ticks])
            axis.set_xlabel(label_of[varying])
            axis.set_ylabel(label)
            axis.grid(alpha=0.3)
        fixed_text = ", ".join(text_of[name].format(own.iloc[0][name]) for name in fixed)
        # The title extends over all three axes: it must not widen the first; that of the second keeps its height free.
        row[0].set_title(f"{title}: {fixed_text}", loc="left").set_in_layout(False)
        row[1].set_title(" ")
    handles = [plt.Line2D([], [], color=colour_of[way], marker="o", label=way)
               for way in ways if (points["way"] == way).any()]
    for rate in shown_rates[1:]:
        handles.append(plt.Line2D([], [], color="#555555", linestyle="--", marker="^", label=f"rate {rate:g}"))
    if not points["is_run"].all():
        handles.append(plt.Line2D([], [], color="#555555", marker="o", markerfacecolor="white", linestyle="",
                                  label="on plan"))
    handles.append(plt.Line2D([], [], color="black", linestyle=":", label="PLSC: 3 weights + 2 logits"))
    handles.append(plt.Line2D([], [], color="black", linestyle="-.", label="PLSC, sampled: 2 weights + 2 rate logits"))
    legend_of_all(figure, handles, [handle.get_label() for handle in handles], columns=3)
    show_figure(figure, "heads", "Step time, peak memory and bytes sent by rank 0, as the head grows")
else:
    print("No two sharded heads differ in one thing only.")
