// Paints faces row by row, in each row shape by shape from back to front. Every shape is a soft mask. A row that a
// shape does not reach skips it; the others are loops that the compiler vectorises.
#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/data/synthetic/synthetic_face.h"

namespace heddle {
namespace {

float clamp01(float x) {
  return std::min(std::max(x, 0.0F), 1.0F);
}
float square(float x) {
  return x * x;
}

class Painter {
 public:
  Painter(const FaceIdentity& face, const FacePose& pose, const ImageShape& shape)
      : f_(face),
        p_(pose),
        width_(static_cast<std::size_t>(shape.width)),
        center_x_(0.5F * static_cast<float>(shape.width)),
        center_y_(0.5F * static_cast<float>(shape.height)),
        // 0.7 leaves room for hair and shoulders in a square picture.
        unit_(0.7F * pose.scale * std::min(center_y_, 1.15F * center_x_)),
        edge_(pose.softness / unit_) {
    for (std::vector<float>* row : {&x_, &y_, &face_x_, &face_y_, &depth_, &red_, &green_, &blue_}) row->resize(width_);
  }

  void paint_row(std::int64_t row) {
    place(row);
    background(row);
    hair_behind();
    shoulders_and_ears();
    head();
    mouth();
    nose();
    eyes();
    hair_in_front();
    glasses_and_mole();
  }

  Colour pixel(std::size_t i) const { return {red_[i], green_[i], blue_[i]}; }

 private:
  /// Sets the coordinates of a row's pixels: x_, y_ in the plane of the head's outline; face_x_, face_y_ of the
  /// features on its curved front, which move further when the head turns.
  void place(std::int64_t row) {
    const float cosine = std::cos(p_.roll);
    const float sine = std::sin(p_.roll);
    const float v = (static_cast<float>(row) + 0.5F - center_y_) / unit_ - p_.move_y;
    for (std::size_t i = 0; i < width_; ++i) {
      const float u = (static_cast<float>(i) + 0.5F - center_x_) / unit_ - p_.move_x;
      const float x = cosine * u + sine * v;
      const float y = cosine * v - sine * u;
      const float depth = std::sqrt(std::max(0.0F, 1 - square(x / f_.half_width) - square(y)));
      x_[i] = x;
      y_[i] = y;
      depth_[i] = depth;
      face_x_[i] = x - p_.yaw * depth;
      face_y_[i] = y - p_.pitch * depth + f_.asymmetry * x;
    }
    const float slack = 0.14F;  // for pitch and asymmetry
    row_top_ = std::min(y_.front(), y_.back()) - slack;
    row_bottom_ = std::max(y_.front(), y_.back()) + slack;
  }

  bool reaches(float top, float bottom) const { return row_bottom_ >= top - edge_ && row_top_ <= bottom + edge_; }

  /// Blends a shape over the row. mask(i) is the shape's opacity, which is clamped to 0 .. 1.
  template <class Mask>
  void blend(Colour colour, const Mask& mask) {
    for (std::size_t i = 0; i < width_; ++i) {
      const float alpha = clamp01(mask(i));
      red_[i] += alpha * (colour.red - red_[i]);
      green_[i] += alpha * (colour.green - green_[i]);
      blue_[i] += alpha * (colour.blue - blue_[i]);
    }
  }

  /// Opacity of an ellipse with a soft edge.
  float ellipse(float dx, float dy, float radius_x, float radius_y) const {
    const float inside = 1 - square(dx / radius_x) - square(dy / radius_y);
    return 0.5F + inside * 0.5F * std::min(radius_x, radius_y) / edge_;
  }

  Colour shaded(Colour colour, float factor) const {
    return {colour.red * factor, colour.green * factor, colour.blue * factor};
  }

  void background(std::int64_t row) {
    const float t = (static_cast<float>(row) - center_y_) / center_y_;
    const Colour c{p_.background.red + t * p_.background_slope.red, p_.background.green + t * p_.background_slope.green,
                   p_.background.blue + t * p_.background_slope.blue};
    std::fill(red_.begin(), red_.end(), c.red);
    std::fill(green_.begin(), green_.end(), c.green);
    std::fill(blue_.begin(), blue_.end(), c.blue);
  }

  void hair_behind() {
    if (f_.hair_volume <= 0) return;
    const float radius_x = f_.half_width + 0.7F * f_.hair_volume;
    const float top = -1 - f_.hair_volume;
    if (!reaches(top, std::max(f_.hair_length, 0.0F))) return;
    blend(shaded(f_.hair, 0.8F), [&](std::size_t i) {
      // The shape is a dome that goes straight down from its widest place to the end of the hair.
      const float y = y_[i];
      const float dome = ellipse(x_[i], std::min(y, 0.0F), radius_x, -top);
      return std::min(dome, 0.5F + (f_.hair_length - y) / (2 * edge_));
    });
  }

  void shoulders_and_ears() {
    if (reaches(0.5F, 9)) {
      const float neck = 0.55F * f_.half_width;
      blend(shaded(f_.skin, 0.75F),
            [&](std::size_t i) { return std::min(0.5F + (neck - std::abs(x_[i])) / edge_, (y_[i] - 0.5F) / edge_); });
      blend(p_.shirt, [&](std::size_t i) { return ellipse(x_[i], y_[i] - 2.2F, 1.5F, 0.95F); });
    }
    if (reaches(f_.ear_y - 0.3F, f_.ear_y + 0.3F)) {
      blend(shaded(f_.skin, 0.85F), [&](std::size_t i) {
        return ellipse(std::abs(x_[i]) - f_.half_width, y_[i] - f_.ear_y, 0.5F * f_.ear_size, f_.ear_size);
      });
    }
  }

  /// Opacity of the head's outline: an ellipse, more or less square, narrower towards the chin.
  float outline(std::size_t i) const {
    const float y = y_[i];
    const float lower = std::max(y, 0.0F);
    const float half_width = f_.half_width * (1 - f_.jaw_taper * lower * lower);
    const float y2 = y * y;
    const float inside = 1 - square(x_[i] / half_width) - y2 * (1 - f_.squareness + f_.squareness * y2);
    return 0.5F + inside * 0.35F / edge_;
  }

  void head() {
    if (!reaches(-1, 1)) return;
    for (std::size_t i = 0; i < width_; ++i) {
      const float light = 0.86F + 0.14F * depth_[i] + p_.light_x * x_[i] / f_.half_width - p_.light_y * y_[i];
      const float alpha = clamp01(outline(i));
      const float cheek =
          clamp01(1 - square((std::abs(face_x_[i]) - 0.42F) / 0.22F) - square((face_y_[i] - 0.25F) / 0.2F));
      const float blush = f_.blush * cheek;
      red_[i] += alpha * (light * f_.skin.red - red_[i]);
      green_[i] += alpha * (light * f_.skin.green * (1 - blush) - green_[i]);
      blue_[i] += alpha * (light * f_.skin.blue * (1 - blush) - blue_[i]);
    }
    if (f_.beard > 0 && reaches(0, 1)) {
      blend(shaded(f_.hair, 0.9F), [&](std::size_t i) {
        const float low = (face_y_[i] - f_.beard_edge + 0.5F * square(face_x_[i])) / 0.12F;
        return std::min(clamp01(low) * f_.beard, outline(i));
      });
    }
  }

  void mouth() {
    if (!reaches(f_.nose_tip, f_.mouth_y + 0.4F)) return;
    const float smile = f_.mouth_curve + p_.smile;
    const float wide = f_.mouth_width * (1 + 0.12F * p_.smile);
    const auto line = [&](std::size_t i) {  // height above or below the curve between the lips
      return face_y_[i] - f_.mouth_y + smile * (square(face_x_[i]) - 0.5F * square(wide));
    };
    const auto half = [&](std::size_t i, float dy, float thickness) {
      return ellipse(face_x_[i], dy, wide, std::max(thickness, edge_));
    };
    if (f_.moustache > 0) {
      const float y = 0.5F * (f_.mouth_y + f_.nose_tip) + 0.04F;
      blend(shaded(f_.hair, 0.9F), [&](std::size_t i) {
        const float dy = face_y_[i] - y - 0.4F * square(face_x_[i]);
        return f_.moustache * clamp01(ellipse(face_x_[i], dy, 1.1F * wide, 0.07F));
      });
    }
    blend(f_.lips, [&](std::size_t i) {
      const float dy = line(i);
      return dy < 0 ? half(i, dy, f_.upper_lip + 0.01F) : half(i, dy, f_.lower_lip + p_.mouth_open + 0.01F);
    });
    const Colour inside = shaded(f_.lips, 0.35F);
    blend(inside, [&](std::size_t i) {
      return ellipse(face_x_[i], line(i) - 0.5F * p_.mouth_open, 0.92F * wide, 0.008F + 0.5F * p_.mouth_open);
    });
  }

  void nose() {
    if (!reaches(f_.eye_y, f_.nose_tip + 0.15F)) return;
    const Colour dark = shaded(f_.skin, 0.55F);
    const float length = f_.nose_tip - f_.eye_y;
    const float lit_side = p_.light_x > 0 ? -1.0F : 1.0F;
    blend(dark, [&](std::size_t i) {  // the ridge's shadow, on the side away from the light
      const float t = clamp01((face_y_[i] - f_.eye_y) / length);
      const float ridge = lit_side * (face_x_[i] - 0.25F * p_.yaw * t) - (f_.nose_bridge + 0.5F * t * f_.nose_width);
      const float ends = std::min(face_y_[i] - f_.eye_y, f_.nose_tip - face_y_[i]) / 0.08F;
      return f_.nose_shade * std::min(clamp01(1 - std::abs(ridge) / 0.05F), clamp01(ends));
    });
    blend(shaded(f_.skin, 1.12F), [&](std::size_t i) {
      return 0.6F * clamp01(1 - square((face_x_[i] - 0.3F * p_.yaw) / (0.5F * f_.nose_width)) -
                            square((face_y_[i] - f_.nose_tip + 0.07F) / 0.08F));
    });
    blend(shaded(f_.skin, 0.3F), [&](std::size_t i) {
      const float x = std::abs(face_x_[i] - 0.25F * p_.yaw) - 0.6F * f_.nose_width;
      return 0.8F * clamp01(ellipse(x, face_y_[i] - f_.nose_tip, 0.35F * f_.nose_width, 0.025F));
    });
  }

  void eyes() {
    const float brow_y = f_.eye_y - f_.brow_height - p_.brow_raise;
    if (!reaches(brow_y - 0.25F, f_.eye_y + 0.2F)) return;
    const float open = std::max(f_.eye_height * p_.eye_open, 0.5F * edge_);
    const auto dx = [&](std::size_t i) { return std::abs(face_x_[i]) - f_.eye_x; };
    const auto dy = [&](std::size_t i) { return face_y_[i] - f_.eye_y + f_.eye_slant * dx(i); };
    const auto lids = [&](std::size_t i) { return ellipse(dx(i), dy(i), f_.eye_width, open); };
    blend(shaded(f_.skin, 0.5F), [&](std::size_t i) {  // lashes and fold: a little larger, and higher
      return 0.85F * clamp01(ellipse(dx(i), dy(i) + 0.015F, 1.1F * f_.eye_width, open + 0.02F));
    });
    blend({0.93F, 0.93F, 0.91F}, lids);
    const float gaze = 0.15F * p_.yaw;
    const auto iris_x = [&](std::size_t i) { return face_x_[i] < 0 ? -dx(i) - gaze : dx(i) - gaze; };
    blend(f_.iris,
          [&](std::size_t i) { return std::min(lids(i), ellipse(iris_x(i), dy(i), f_.iris_radius, f_.iris_radius)); });
    blend({0.03F, 0.03F, 0.03F}, [&](std::size_t i) {
      return std::min(lids(i), ellipse(iris_x(i), dy(i), 0.5F * f_.iris_radius, 0.5F * f_.iris_radius));
    });
    blend(shaded(f_.hair, 0.75F), [&](std::size_t i) {
      const float along = dx(i) - 0.02F;
      const float middle = brow_y + f_.brow_slope * along + f_.brow_arch * square(along);
      return 0.9F * clamp01(std::min(0.5F + (f_.brow_thickness - std::abs(face_y_[i] - middle)) / edge_,
                                     0.5F + (f_.brow_length - std::abs(along)) / edge_));
    });
  }

  void hair_in_front() {
    if (f_.hair_volume <= 0 || !reaches(-1.4F, 0.6F)) return;
    const float radius_x = f_.half_width + 0.5F * f_.hair_volume;
    blend(f_.hair, [&](std::size_t i) {
      const float end = f_.hairline + f_.hairline_tilt * x_[i] + f_.hairline_curve * square(x_[i]);
      const float cap = ellipse(x_[i], std::min(y_[i], 0.0F), radius_x, 1 + f_.hair_volume);
      return std::min(cap, 0.5F + (end - y_[i] + p_.pitch * 0.5F) / edge_);
    });
  }

  void glasses_and_mole() {
    if (f_.has_glasses && reaches(f_.eye_y - 0.3F, f_.eye_y + 0.3F)) {
      blend(f_.glasses, [&](std::size_t i) {
        const float x = std::abs(face_x_[i]);
        const float y = face_y_[i] - f_.eye_y - 0.03F;
        const float from_rim = std::abs(std::sqrt(square(x - f_.eye_x) + square(1.15F * y)) - f_.glasses_radius);
        const float bridge = x < f_.eye_x - f_.glasses_radius ? std::abs(y + 0.03F) : from_rim;
        return 0.5F + (f_.glasses_thickness - std::min(from_rim, bridge)) / edge_;
      });
    }
    if (f_.has_mole && reaches(f_.mole_y - 0.1F, f_.mole_y + 0.1F)) {
      blend(shaded(f_.skin, 0.35F), [&](std::size_t i) {
        return ellipse(face_x_[i] - f_.mole_x * f_.half_width, face_y_[i] - f_.mole_y, f_.mole_radius, f_.mole_radius);
      });
    }
  }

  const FaceIdentity& f_;
  const FacePose& p_;
  std::size_t width_;
  float center_x_, center_y_;
  float unit_;  // pixels in half a face height
  float edge_;  // width of a soft edge
  float row_top_ = 0;
  float row_bottom_ = 0;
  std::vector<float> x_, y_, face_x_, face_y_, depth_, red_, green_, blue_;
};

/// Applies light and noise to a value of 0 .. 1, rounds it to one of 256 levels as an image file would, and maps it to
/// -1 .. 1.
float developed(float value, float gain, float noise) {
  const float level = static_cast<float>(static_cast<int>(255 * clamp01(value * gain + noise) + 0.5F));
  return (level - 127.5F) / 127.5F;
}

}  // namespace

void paint_face(const FaceIdentity& identity, const FacePose& pose, const ImageShape& shape, RandomStream& noise,
                std::span<float> pixels) {
  Painter painter(identity, pose, shape);
  float* target = pixels.data();
  const float grain = pose.noise * (3.4641F / 1023.0F);  // gives ten uniform bits that deviation
  for (std::int64_t row = 0; row < shape.height; ++row) {
    painter.paint_row(row);
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape.width); ++i) {
      const std::uint32_t bits = noise.next_u32();
      const auto speck = [&](int shift) { return grain * (static_cast<float>((bits >> shift) & 1023U) - 511.5F); };
      const Colour c = painter.pixel(i);
      if (shape.channels == 1) {
        *target++ = developed(0.299F * c.red + 0.587F * c.green + 0.114F * c.blue, pose.gain, speck(0));
      } else {
        *target++ = developed(c.red, pose.gain * pose.cast.red, speck(0));
        *target++ = developed(c.green, pose.gain * pose.cast.green, speck(10));
        *target++ = developed(c.blue, pose.gain * pose.cast.blue, speck(20));
      }
    }
  }
}

}  // namespace heddle
