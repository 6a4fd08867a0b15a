#include "notebooks_export/head_cells.h"

namespace heddle {

namespace {

constexpr const char* read_heads = R"python(bytes_of = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "int8": 1, "none": 0}
ways = ["gathered", "transposed", "sharded", "fused", "fused, stash"]
colour_of = dict(zip(ways, ["#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7"]))


def weight_bytes(head, copies=1):
    """So many tensors like the weights of a rank's classes."""
    own = math.ceil(head["classes"] / head["ranks"]) * head["features"]
    return own * copies * bytes_of[head["weights"]]


def state_bytes(head):
    """Weights and velocity of a rank's classes."""
    velocity = bytes_of[head["momentum"]] / bytes_of[head["weights"]]
    return weight_bytes(head, 1 + velocity)


def logit_bytes(head, batch, copies=1):
    """So many f32 copies of the logits of a rank's classes, or of its sample of them."""
    return copies * head["rate"] * batch * head["classes"] / head["ranks"] * 4


def head_bytes(head, batch):
    """The fullest rank's: state, logits (where they are fused one class tile's), a sample's rows, embeddings twice."""
    copies = {"gathered": 2 * head["ranks"], "transposed": 3, "sharded": 1, "fused": 1 if head["stash"] else 0}
    tile = min(head["classes"] / head["ranks"], 2**19 / head["features"]) if head["logits"] == "fused" else 0
    sample = head["rate"] * weight_bytes(head) if head["rate"] < 1 and head["logits"] != "fused" else 0
    logits = logit_bytes(head, batch, copies[head["logits"]]) + batch * tile * 4
    return state_bytes(head) + logits + sample + 2 * batch * head["features"] * 4


def product_flops(head, batch):
    """Of a step of a rank: every product takes each row and each class once."""
    products = 3 if head["stash"] else 4
    return products * 2 * head["rate"] * batch * head["classes"] / head["ranks"] * head["features"]


rows = []
for variant in variants:
    head = variant["head"]
    if variant["status"] != "ok" or head["parallel"] != "sharded":
        continue
    batch = variant["batch"] / head.get("copies", 1)  # of the ranks that share the classes
    sent = variant["sent_in_step"] or {"counted": 0, "formula": {"total": 0}}
    rows.append(
        {
            "way": head["logits"] + (", stash" if head["stash"] else ""),
            "rate": head["rate"],
            "classes": head["classes"],
            "ranks": head["ranks"],
            "batch": batch,
            "classes a rank": head["classes"] / head["ranks"],
            "batch a rank": batch / head["ranks"],
            "is_run": variant["device"] != "plan",
            "seconds": variant["step_seconds"]["median"],
            "flops": product_flops(head, batch),
            "memory": max(rank["peak_bytes"]["total"] for rank in variant["ranks"]),
            "memory formula": head_bytes(head, batch),
            "published": weight_bytes(head, 3) + logit_bytes(head, batch, 2),
            "published, sparse": weight_bytes(head, 2) + logit_bytes(head, batch, 2),
            "sent": sent["counted"],
            "sent formula": sent["formula"]["total"],
        }
    )
points = pd.DataFrame(rows)
series = []
if len(points):
    # Times on plan are a model's: they are shown only where nothing was run.
    points["is_timed"] = points["is_run"] | (not points["is_run"].any())
    best_rate = (points["flops"] / points["seconds"])[points["is_timed"]].max()
    points["seconds formula"] = points["flops"] / best_rate
    for title, varying, fixed in (
        ("Over classes", "classes", ["ranks", "batch"]),
        ("Over ranks, strong", "ranks", ["classes", "batch"]),
        ("Over ranks, weak", "ranks", ["classes a rank", "batch a rank"]),
        ("Over the rate", "rate", ["classes", "ranks", "batch"]),
    ):
        # The points that agree in what is fixed, and between them have the most values of what varies.
        own = max((group for _, group in points.groupby(fixed)), key=lambda group: group[varying].nunique())
        if own[varying].nunique() > 1:
            series.append((title, varying, fixed, own))
    # Besides all classes, the rate that most heads were run with; the others are in their own row.
    rates = points[points["rate"] < 1]["rate"].mode()
    shown_rates = [1.0, *rates[:1]]


def curve_of(own, varying, way, rate=None):
    """The points of one way, and of one rate if it is given, in order."""
    curve = own[(own["way"] == way) & ((own["rate"] == rate) | (rate is None))]
    return curve.sort_values(varying).drop_duplicates(varying)
)python";

constexpr const char* head_figure = R"python(columns = [
    ("seconds", "s a step", 1),
    ("memory", "MiB, fullest rank", 2**20),
    ("sent", "MiB sent a step, rank 0", 2**20),
]
label_of = {"classes": "classes C", "ranks": "ranks k", "rate": "share of the classes in a step"}
told_of = {"classes": "{:,.0f} classes", "ranks": "{:g} ranks", "batch": "batch {:,.0f}",
           "classes a rank": "{:,.0f} classes a rank", "batch a rank": "batch {:,.0f} a rank"}


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
    figure, axes = plt.subplots(len(series), 3, figsize=(14, 3.3 * len(series) + 0.6), squeeze=False,
                                layout="constrained")
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
        told = ", ".join(told_of[name].format(own.iloc[0][name]) for name in fixed)
        row[0].set_title(f"{title}: {told}", loc="left", fontsize=10)
    handles = [plt.Line2D([], [], color=colour_of[way], marker="o", label=way)
               for way in ways if (points["way"] == way).any()]
    for rate in shown_rates[1:]:
        handles.append(plt.Line2D([], [], color="#555555", linestyle="--", marker="^", label=f"rate {rate:g}"))
    if not points["is_run"].all():
        handles.append(plt.Line2D([], [], color="#555555", marker="o", markerfacecolor="white", linestyle="",
                                  label="on plan"))
    handles.append(plt.Line2D([], [], color="black", linestyle=":", label="PLSC: 3 weights + 2 logits"))
    handles.append(plt.Line2D([], [], color="black", linestyle="-.", label="PLSC, sampled: 2 weights + 2 rate logits"))
    axes[0, -1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=9)
    plt.show()
else:
    print("No two sharded heads differ in one thing only.")
)python";

constexpr const char* pays = R"python(def crossing(exact, sampled):
    """From where on the sampled curve lies below the exact one; between two points by a straight line of logarithms."""
    both = pd.DataFrame({"exact": exact, "sampled": sampled}).dropna().sort_index()
    ratio = both["sampled"] / both["exact"]
    at = len(ratio)
    while at > 0 and ratio.iloc[at - 1] < 1:
        at -= 1
    if at == len(ratio):
        return f"nowhere up to C = {ratio.index[-1]:,.0f}"
    most = f"; at C = {ratio.index[-1]:,.0f} {1 / ratio.iloc[-1]:.2f} times less"
    if at == 0:
        return f"from C = {ratio.index[0]:,.0f} on, the fewest classes here{most}"
    x0, x1 = math.log(ratio.index[at - 1]), math.log(ratio.index[at])
    y0, y1 = math.log(ratio.iloc[at - 1]), math.log(ratio.iloc[at])
    return f"from C = {math.exp(x0 + (x1 - x0) * y0 / (y0 - y1)):,.0f} on{most}"


def growth(own, way, rate):
    """How the fullest rank's memory grows from the fewest ranks to the most."""
    curve = curve_of(own, "ranks", way, rate)
    if len(curve) < 2:
        return None
    least, most = curve.iloc[0], curve.iloc[-1]
    return (f"{least['memory'] / 2**20:,.1f} MiB on {least['ranks']:g} rank{'s' if least['ranks'] > 1 else ''}, "
            f"{most['memory'] / 2**20:,.1f} MiB on {most['ranks']:g}")


for title, varying, _, own in series:
    for way in ways:
        for rate in shown_rates[1:] if varying == "classes" else []:
            for name, column in (("a step takes less time", "seconds"), ("a rank holds less", "memory")):
                some = own[own["is_timed"]] if column == "seconds" else own
                exact, sampled = (
                    curve_of(some, "classes", way, value).set_index("classes")[column] for value in (1.0, rate)
                )
                if len(exact.index.intersection(sampled.index)):
                    print(f"{way}, rate {rate:g}: {name} than with all classes {crossing(exact, sampled)}.")
        for rate in shown_rates if title == "Over ranks, weak" else []:
            grown = growth(own, way, rate)
            if grown:
                print(f"{way}{'' if rate == 1 else f', rate {rate:g}'}, classes and batch a rank fixed: {grown}.")
)python";

}  // namespace

std::vector<NotebookCell> head_cells() {
  return {
      {.id = "heads-text",
       .is_code = false,
       .source = "## How the head grows\n\nPoints are what was counted and timed, full ones of a run, hollow ones on "
                 "plan. Lines are formulas. Memory: a rank's weights and velocity; 2 k (gathered, on rank 0), 3 "
                 "(transposed), 1 (sharded) or 0 (fused: one class tile's) copies of its logits, rate * B * C / k * 4 "
                 "bytes; a sample's rows; the embeddings twice. Beside them PLSC's. Bytes sent: the sums of the "
                 "collectives' parts. Time: the products' operations at the "
                 "best rate of any variant here. Weak: classes and batch a rank are fixed, so B * C / k, and with it "
                 "what a rank holds of the logits, grows with k."},
      {.id = "heads-read", .is_code = true, .source = read_heads},
      {.id = "heads", .is_code = true, .source = head_figure},
      {.id = "heads-pay", .is_code = true, .source = pays},
  };
}

}  // namespace heddle
