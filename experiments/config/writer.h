// Writes described structs as JSON text: with every default filled in, or without.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/description/describe.h"

namespace heddle {

/// The struct as a JSON object, keys in the order of description. Reading it gives the same struct. Throws Error for
/// numbers that JSON cannot hold.
std::string write_json(const Describer::Body& body);

struct NamedBody {
  std::string name;
  Describer::Body body;
};

/// A whole experiment file: the first variant is the base, the others are patches on it. Reading it gives the same
/// variants; a file of one variant that is named like the experiment gets no "variants".
std::string write_experiment(std::span<const NamedBody> variants);

/// The same without keys whose values are the defaults, which `defaults` describes. Required keys and types stay.
std::string write_short_experiment(std::span<const NamedBody> variants, const Describer::Body& defaults);

}  // namespace heddle
