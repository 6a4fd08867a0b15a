#include "framework/scalars/margin.h"

#include <algorithm>
#include <array>
#include <list>

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {

template <>
inline constexpr auto enum_names<MarginGradient> = enum_table<MarginGradient>({
    {MarginGradient::exact, "exact"},
    {MarginGradient::straight_through, "straight_through"},
});

template <>
inline constexpr auto enum_names<BeyondPi> = enum_table<BeyondPi>({
    {BeyondPi::cosine, "cosine"},
    {BeyondPi::linear, "linear"},
    {BeyondPi::easy, "easy"},
    {BeyondPi::psi, "psi"},
});

namespace {

constexpr double pi = 3.14159265358979323846;

/// The least and the largest phi of an extension's map. Between 2,000 cosines a smooth map changes little.
struct Extremes {
  double least = 0;
  double most = 0;
};
Extremes extremes_of(const ChosenExtensionMargin& chosen) {
  Extremes found;
  for (int i = -1000; i <= 1000; ++i) {
    const double phi = extension_target(chosen, i / 1000.0).phi;
    found.least = std::min(found.least, phi);
    found.most = std::max(found.most, phi);
  }
  return found;
}

double min_phi(const CombinedMargin& margin) {
  const double lowest = -1 - std::max(0.0, margin.m3);
  if (margin.beyond_pi == BeyondPi::psi) return lowest - 2 * std::floor((margin.m1 * pi + margin.m2) / pi);
  return lowest - (margin.beyond_pi == BeyondPi::linear ? margin.m2 * std::sin(margin.m2) : 0);
}

/// The smallest value of a target's phi, for a cosine.
double min_phi(const MarginConfig& margin) {
  if (margin.extension.margin != nullptr) return std::min(-1.0, extremes_of(margin.extension).least);
  switch (margin.type) {
    case MarginType::adaface:
      return -1 - 2 * margin.adaface.m;
    case MarginType::curricularface:
      return -1 - margin.curricularface.m * std::sin(margin.curricularface.m);
    case MarginType::l_softmax:
      return -1 - 2 * static_cast<double>(margin.l_softmax.m);
    case MarginType::combined:
      break;
  }
  return min_phi(margin.combined);
}

}  // namespace

double max_logit(const MarginConfig& margin) {
  if (margin.extension.margin != nullptr) return margin.scale * std::max(1.0, extremes_of(margin.extension).most);
  switch (margin.type) {
    case MarginType::curricularface:
      return 2 * margin.scale;
    case MarginType::adaface:
    case MarginType::l_softmax:
      return margin.scale;
    case MarginType::combined:
      break;
  }
  return margin.scale * (1 + std::max(0.0, -margin.combined.m3));
}

double min_logit(const MarginConfig& margin) {
  return margin.scale * min_phi(margin);
}

RowStatistic row_statistic(const MarginConfig& margin) {
  switch (margin.type) {
    case MarginType::adaface:
      return RowStatistic::inverse_norm;
    case MarginType::curricularface:
      return RowStatistic::target_cosine;
    case MarginType::l_softmax:
      return RowStatistic::target_radius;
    case MarginType::combined:
      break;
  }
  return RowStatistic::none;
}

bool has_negative_map(const MarginConfig& margin) {
  switch (margin.type) {
    case MarginType::curricularface:
      return true;
    case MarginType::combined:
      return margin.combined.filter > 0;
    case MarginType::l_softmax:
    case MarginType::adaface:
      break;
  }
  return false;
}

std::vector<double> initial_running(const MarginConfig& margin) {
  switch (margin.type) {
    case MarginType::adaface:
      return {20, 100};
    case MarginType::curricularface:
      return {0};
    case MarginType::combined:
    case MarginType::l_softmax:
      break;
  }
  return {};
}

namespace {

constexpr const char* momentum_help = "weight of a step in the running statistics";

void describe_combined(Describer& d, MarginConfig& c) {
  d.field("m1", c.combined.m1, above(0), "factor on the target's angle (SphereFace)");
  d.field("m2", c.combined.m2, between(0, pi), "radians added to the target's angle (ArcFace)");
  d.field("m3", c.combined.m3, any_number(), "subtracted from the target's cosine (CosFace, AM-softmax)");
  choice(d, "gradient", c.combined.gradient, "derivative of the target's logit");
  choice(d, "beyond_pi", c.combined.beyond_pi,
         "target map where m1 * angle + m2 exceeds pi: the cosine as elsewhere, a straight line (InsightFace until "
         "2022), or SphereFace's falling psi; easy: no margin where the target's cosine is not positive");
  d.field("filter", c.combined.filter, between(0, 1),
          "cosines of other classes above this are set to 0 (interclass filtering); 0: none");
}

void describe_l_softmax(Describer& d, MarginConfig& c) {
  d.field("m", c.l_softmax.m, between(1, 16), "factor on the target's angle");
}

void describe_adaface(Describer& d, MarginConfig& c) {
  d.field("m", c.adaface.m, between(0, pi / 2),
          "up to m radians are added to the target's angle or subtracted from it, and 0 to 2 m is subtracted from its "
          "cosine");
  d.field("h", c.adaface.h, above(0), "how fast the margin changes with the norm, in units of its deviation");
  d.field("momentum", c.adaface.momentum, between(0, 1), momentum_help);
}

void describe_curricularface(Describer& d, MarginConfig& c) {
  d.field("m", c.curricularface.m, between(0, pi), "radians added to the target's angle");
  d.field("momentum", c.curricularface.momentum, between(0, 1), momentum_help);
}

void describe_scale(Describer& d, MarginConfig& c) {
  d.field("scale", c.scale, above(0), "factor on every cosine before the softmax");
}

constexpr auto margins = enum_table<MarginType, AlternativeRow<MarginConfig>>({
    {MarginType::combined,
     {"combined", "cos(m1 * angle + m2) - m3 for the target: plain softmax, ArcFace, CosFace, SphereFace and more",
      describe_combined}},
    {MarginType::l_softmax,
     {"l_softmax", "|w| |x| psi(angle) in place of the target's product; needs head.normalize = false",
      describe_l_softmax}},
    {MarginType::adaface,
     {"adaface", "a margin that depends on the norm of the embedding, which measures an image's quality",
      describe_adaface}},
    {MarginType::curricularface,
     {"curricularface", "ArcFace with weights on hard negatives that rise as the targets' cosines rise",
      describe_curricularface}},
});

constexpr std::array<Describer::KnownName, 4> combined_margins{{
    {"arcface", "m2"},
    {"cosface", "m3"},
    {"am_softmax", "m3"},
    {"sphereface", "m1 and beyond_pi psi"},
}};

}  // namespace

/// The margins of extensions. A list, because configurations point into it.
static std::list<ExtensionMargin>& extension_margins() {
  static std::list<ExtensionMargin> added;
  return added;
}

void add_margins(const std::vector<ExtensionMargin>& added) {
  for (const ExtensionMargin& margin : added) {
    const auto is_named = [&](const auto& row) { return row.name == margin.name; };
    std::list<ExtensionMargin>& known = extension_margins();
    if (std::any_of(margins.rows().begin(), margins.rows().end(), is_named) ||
        std::any_of(known.begin(), known.end(), is_named))
      fail<InputError>("there is a margin \"{}\" already", margin.name);
    if (margin.settings.size() > ExtensionMargin::max_settings)
      fail<InputError>("margin \"{}\": expected at most {} settings, got {}", margin.name,
                       ExtensionMargin::max_settings, margin.settings.size());
    known.push_back(margin);
  }
}

void describe(Describer& d, MarginConfig& c) {
  std::vector<Describer::Alternative> kinds = alternatives_of(margins, c, describe_scale);
  kinds[static_cast<std::size_t>(MarginType::combined)].known_names = combined_margins;
  const std::list<ExtensionMargin>& added = extension_margins();
  std::vector<ChosenExtensionMargin> chosen;
  chosen.reserve(added.size());
  auto index = static_cast<int>(c.type);
  for (const ExtensionMargin& margin : added) {
    if (c.extension.margin == &margin) {
      index = static_cast<int>(kinds.size());
      chosen.push_back(c.extension);
    } else {
      chosen.push_back({.margin = &margin});
      for (std::size_t i = 0; i < margin.settings.size(); ++i)
        chosen.back().settings.at(i) = margin.settings[i].default_value;
    }
    kinds.push_back({margin.name, margin.help, [&c, &own = chosen.back()](Describer& inner) {
                       for (std::size_t i = 0; i < own.margin->settings.size(); ++i) {
                         const ExtensionMargin::Setting& setting = own.margin->settings[i];
                         inner.field(setting.name, own.settings.at(i), between(setting.minimum, setting.maximum),
                                     setting.help);
                       }
                       describe_scale(inner, c);
                     }});
  }
  d.alternatives(index, kinds, "the kind of margin");
  const bool is_built_in = index < static_cast<int>(margins.size);
  c.type = is_built_in ? static_cast<MarginType>(index) : MarginType::combined;
  c.extension = is_built_in ? ChosenExtensionMargin{} : chosen[static_cast<std::size_t>(index) - margins.size];
}

void check(const MarginConfig& margin, bool normalize) {
  const CombinedMargin& combined = margin.combined;
  switch (margin.type) {
    case MarginType::l_softmax:
      if (normalize) fail<InputError>("head: l_softmax has unnormalised weights: expected \"normalize\": false");
      return;
    case MarginType::adaface:
    case MarginType::curricularface:
      if (!normalize)
        fail<InputError>("head: margins act on angles: with \"normalize\": false expected type combined or l_softmax");
      return;
    case MarginType::combined:
      break;
  }
  if (!normalize && margin.extension.margin != nullptr)
    fail<InputError>("head: margins act on angles: with \"normalize\": false expected type combined or l_softmax");
  if (!normalize && !combined.is_plain())
    fail<InputError>(
        "head: margins act on angles: with \"normalize\": false expected m1 = 1, m2 = 0, m3 = 0 and no filter");
  if (combined.beyond_pi == BeyondPi::linear && combined.m1 != 1)
    fail<InputError>("head.margin.beyond_pi: the line continues ArcFace's margin: expected m1 = 1, got {}",
                     combined.m1);
}

}  // namespace heddle
