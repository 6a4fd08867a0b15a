#include "experiments/data/synthetic/synthetic_face.h"

#include <cmath>

namespace heddle {
namespace {

Colour mix(Colour a, Colour b, float t) {
  return {a.red + t * (b.red - a.red), a.green + t * (b.green - a.green), a.blue + t * (b.blue - a.blue)};
}

class Draws {
 public:
  explicit Draws(RandomStream& stream) : stream_(stream) {}
  float from(double low, double high) { return static_cast<float>(low + (high - low) * stream_.uniform()); }
  bool chance(double probability) { return stream_.uniform() < probability; }
  Colour colour(double low, double high) {
    const float red = from(low, high);
    const float green = from(low, high);
    return {red, green, from(low, high)};
  }

 private:
  RandomStream& stream_;
};

Colour draw_hair(Draws& d) {
  constexpr Colour black{0.07F, 0.06F, 0.06F};
  constexpr Colour brown{0.40F, 0.25F, 0.14F};
  constexpr Colour blond{0.86F, 0.70F, 0.42F};
  const float t = d.from(0, 2);
  const Colour coloured = t < 1 ? mix(black, brown, t) : mix(brown, blond, t - 1);
  const bool gray = d.chance(0.15);
  const float light = d.from(0.4, 0.85);
  return gray ? Colour{light, light, light} : coloured;
}

}  // namespace

FaceIdentity draw_identity(RandomStream draws) {
  Draws d(draws);
  FaceIdentity f{};
  f.skin = mix({0.97F, 0.83F, 0.73F}, {0.40F, 0.26F, 0.19F}, d.from(0, 1));
  f.skin.red += d.from(-0.03, 0.03);
  f.skin.blue += d.from(-0.05, 0.05);
  f.hair = draw_hair(d);
  f.iris = mix({0.20F, 0.12F, 0.06F}, {0.35F, 0.55F, 0.70F}, d.from(0, 1));
  f.lips = mix(f.skin, {0.70F, 0.20F, 0.22F}, d.from(0.3, 0.85));
  f.half_width = d.from(0.64, 0.86);
  f.jaw_taper = d.from(0.02, 0.40);
  f.squareness = d.from(0, 1);
  f.asymmetry = d.from(-0.06, 0.06);

  const bool bald = d.chance(0.12);
  f.hairline = bald ? -1.3F : d.from(-0.80, -0.42);
  f.hairline_curve = d.from(-0.3, 0.9);
  f.hairline_tilt = d.from(-0.35, 0.35);
  f.hair_volume = bald ? 0.0F : d.from(0.04, 0.24);
  f.hair_length = bald ? -0.5F : d.from(-0.4, 1.3);

  f.eye_y = d.from(-0.20, 0.02);
  f.eye_x = d.from(0.25, 0.42);
  f.eye_width = d.from(0.10, 0.175);
  f.eye_height = d.from(0.045, 0.10);
  f.eye_slant = d.from(-0.3, 0.3);
  f.iris_radius = d.from(0.04, 0.065);
  f.brow_height = d.from(0.13, 0.25);
  f.brow_thickness = d.from(0.015, 0.06);
  f.brow_length = d.from(0.12, 0.22);
  f.brow_slope = d.from(-0.4, 0.3);
  f.brow_arch = d.from(0, 1.8);

  f.nose_tip = d.from(0.18, 0.38);
  f.nose_width = d.from(0.07, 0.18);
  f.nose_bridge = d.from(0.025, 0.07);
  f.nose_shade = d.from(0.15, 0.5);
  f.mouth_y = d.from(0.48, 0.68);
  f.mouth_width = d.from(0.17, 0.35);
  f.upper_lip = d.from(0.015, 0.06);
  f.lower_lip = d.from(0.02, 0.085);
  f.mouth_curve = d.from(-0.5, 0.5);

  f.ear_size = d.from(0.12, 0.24);
  f.ear_y = d.from(-0.1, 0.15);
  f.blush = d.from(0, 0.3);
  f.beard = d.chance(0.2) ? d.from(0.35, 0.9) : 0.0F;
  f.beard_edge = d.from(0.25, 0.55);
  f.moustache = d.chance(0.2) ? d.from(0.4, 0.95) : 0.0F;
  f.has_glasses = d.chance(0.2);
  f.glasses = d.colour(0.02, 0.4);
  f.glasses_radius = d.from(0.17, 0.24);
  f.glasses_thickness = d.from(0.015, 0.03);
  f.has_mole = d.chance(0.35);
  f.mole_x = d.from(-0.5, 0.5);
  f.mole_y = d.from(0.1, 0.8);
  f.mole_radius = d.from(0.025, 0.045);
  return f;
}

FacePose draw_pose(RandomStream& draws) {
  Draws d(draws);
  FacePose p{};
  const float gray = d.from(0.15, 0.85);
  p.background = mix({gray, gray, gray}, d.colour(0.05, 0.95), 0.5F);
  p.background_slope = d.colour(-0.2, 0.2);
  p.shirt = d.colour(0.05, 0.95);
  p.cast = d.colour(0.92, 1.08);
  p.roll = static_cast<float>(0.09 * draws.normal());
  p.yaw = d.from(-0.26, 0.26);
  p.pitch = d.from(-0.13, 0.13);
  p.scale = d.from(0.92, 1.08);
  p.move_x = d.from(-0.07, 0.07);
  p.move_y = d.from(-0.07, 0.07);
  const double side = d.from(-3.14159, 3.14159);
  const double strength = d.from(0.02, 0.38);
  p.light_x = static_cast<float>(std::sin(side) * strength);
  p.light_y = static_cast<float>(std::cos(side) * strength - 0.08);
  p.gain = d.from(0.72, 1.15);
  p.softness = d.from(1.0, 2.4);
  p.noise = d.from(0.008, 0.035);
  p.smile = d.from(-0.4, 0.9);
  const bool open = d.chance(0.3);
  const float opening = d.from(0.02, 0.10);
  p.mouth_open = open ? opening : 0.0F;
  const bool blink = d.chance(0.05);
  const float lids = d.from(0.6, 1.1);
  p.eye_open = blink ? 0.15F : lids;
  p.brow_raise = d.from(-0.03, 0.04);
  return p;
}

}  // namespace heddle
