// One source against many targets: a decoder with the source folded in, and lists of quantised rows.
//
// Functions work on ranges, so that the caller's threads need no lock. A target's score is summed in the same order
// wherever it stands and whatever stands beside it, so that equal rows score alike.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "abi.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;
constexpr int kRows = 12;  // targets worked on at once: 24 sums and 2 weights stay in registers
#else
constexpr int kLanes = 8;
constexpr int kRows = 6;
#endif
constexpr int kWide = 2 * kLanes;  // hidden units worked on at once
constexpr int kGroup = 16;         // rows of a list that stand together, four columns of each in turn
constexpr int kEstimates = 6;
constexpr int kGroups = 4;         // of them worked on at once
constexpr int kAhead = 6;          // scattered rows that are asked for in advance
typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4)));
typedef int32_t Ints __attribute__((vector_size(4 * kGroup)));  // a number for each row of a group
typedef int32_t Bits __attribute__((vector_size(4 * kLanes)));  // of the numbers in Lanes

Lanes at(const float* x) { return *reinterpret_cast<const Lanes*>(x); }
void put(float* x, Lanes values) { *reinterpret_cast<Lanes*>(x) = values; }

void ask_for(const float* row, int64_t size) {
  for (int64_t k = 0; k < size; k += 16) __builtin_prefetch(row + k);
}

float sum_of(Lanes x) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps((__m512)x);
#else
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
#endif
}

// a NaN stays one: a comparison with it is false
Lanes positive(Lanes x) { return x < 0 ? Lanes{} : x; }

// log(1 + x) of x >= 0, within two units of the last place; a NaN stays one
Lanes log1p_of(Lanes x) {
  const Lanes u = 1 + x;
  const Bits bits = (Bits)u;
  const Bits exponent = (bits - 0x3f3504f3) >> 23;  // so that the mantissa lies between sqrt(1/2) and sqrt(2)
  const Lanes f = (Lanes)(bits - (exponent << 23)) - 1, s = f / (2 + f), z = s * s;
  const Lanes series = z * (0.6666666269f + z * (0.4000097152f + z * (0.2849878669f + z * 0.2427907884f)));
  const Lanes half = 0.5f * f * f;
  const Lanes power = __builtin_convertvector(exponent, Lanes), rest = (x - (u - 1)) / u;
  const Lanes made = power * 0.693359375f + (rest - power * 2.12194440e-4f + (f - (half - s * (half + series))));
  return u > 3e38f ? u : made;
}

float dot(const float* a, const float* b, int64_t size) {
  Lanes sums{};
  int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) sums += at(a + k) * at(b + k);
  float rest = 0;
  for (; k < size; ++k) rest += a[k] * b[k];
  return sum_of(sums) + rest;
}

// sums += y w for one panel of kWide hidden units; w is (size, kWide).
template <int Rows>
inline void add_products(const float* const* y, int64_t size, const float* w, Lanes (&sums)[Rows][2]) {
  for (int64_t k = 0; k < size; ++k) {
    const Lanes first = at(w + k * kWide), second = at(w + k * kWide + kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const float value = y[r][k];
      sums[r][0] += value * first;
      sums[r][1] += value * second;
    }
  }
}

}  // namespace

extern "C" {

struct Decoder {
  const float* y;        // (n, stride) stored rows: an embedding of `size`, then sketches
  int64_t stride;
  int64_t size;
  int64_t panels;        // of kWide hidden units
  int64_t shared;        // width of what sketches say of a pair, 0 without sketches
  int64_t sketch_size;
  const float* bias;     // (panels, kWide)
  const float* output;   // (panels, kWide)
  const float* first;    // (panels, size, kWide) weights that the source is yet to be folded into, or none
  const float* mixed;    // (panels, shared, kWide): what sketches say enters the hidden layer
  const float* direct;   // (shared,) where it is added to the score instead, or none
  const float* said;     // (6, shared) and (shared,): estimates to what they say
  const float* said_bias;
  float output_bias;
  int32_t residual;      // whether (size,) weights of the embedding's own share follow those of the hidden layer
  // several hidden layers, or normalised ones
  int64_t width;         // hidden units without those that fill the last panel
  int64_t num_later;     // layers after the first
  const float* later;    // of each its (panels, width, kWide) weights and (panels, kWide) bias
  const float* norms;    // (1 + num_later, 2, panels, kWide) factors and shifts of layer norms, or none
  float epsilon;
  int32_t adds;          // whether a later layer adds to what it reads
};

int32_t panel_width() { return kWide; }
int32_t group_size() { return kGroup; }

}  // extern "C"

namespace {

// (4,) products of the sketches of two rows: see SharedStructure
inline void counts_of(const float* own, const float* other, int64_t f, float (&out)[4]) {
  Lanes sums[4] = {};
  int64_t k = 0;
  for (; k + kLanes <= f; k += kLanes) {
    const Lanes near = at(own + k), scarce = at(own + f + k), far = at(own + 2 * f + k);
    const Lanes there = at(other + k), beyond = at(other + 2 * f + k);
    sums[0] += near * there;
    sums[1] += scarce * at(other + f + k);
    sums[2] += near * beyond;
    sums[2] += far * there;
    sums[3] += far * beyond;
  }
  for (int e = 0; e < 4; ++e) out[e] = sum_of(sums[e]);
  for (; k < f; ++k) {
    out[0] += own[k] * other[k];
    out[1] += own[f + k] * other[f + k];
    out[2] += own[k] * other[2 * f + k] + own[2 * f + k] * other[k];
    out[3] += own[2 * f + k] * other[2 * f + k];
  }
}

// what the sketches of the source and of some rows say, after ReLU; `slopes` take the derivatives of the logarithms
template <int Rows>
__attribute__((noinline))  // so that bounds and scores go by the same bits
void shared_of(const Decoder& decoder, const float* own, const float* const* y, float* out,
               float (*slopes)[kRows + kLanes] = nullptr) {
  const int64_t f = decoder.sketch_size, shared = decoder.shared;
  float estimates[kEstimates][kRows + kLanes] = {};  // loads reach beyond the last row
  own += decoder.size;
  for (int r = 0; r < Rows; ++r) {
    const float* other = y[r] + decoder.size;
    float counts[4];
    counts_of(own, other, f, counts);
    for (int e = 0; e < 4; ++e) estimates[e][r] = counts[e];
    estimates[4][r] = own[3 * f] + other[3 * f];
    estimates[5][r] = own[3 * f] * other[3 * f];
  }
  for (int e = 0; e < 4; ++e)
    for (int r = 0; r < Rows; r += kLanes) {
      const Lanes count = at(estimates[e] + r), size = count < 0 ? -count : count, logarithm = log1p_of(size);
      put(estimates[e] + r, count < 0 ? -logarithm : logarithm);
      if (slopes) put(slopes[e] + r, 1 / (1 + size));
    }
  for (int64_t k = 0; k < shared; k += kLanes) {
    Lanes weights[kEstimates];
    for (int e = 0; e < kEstimates; ++e) weights[e] = at(decoder.said + e * shared + k);
    const Lanes bias = at(decoder.said_bias + k);
    for (int r = 0; r < Rows; ++r) {
      Lanes sum = bias;
#pragma GCC unroll 6
      for (int e = 0; e < kEstimates; ++e) sum += estimates[e][r] * weights[e];
      put(out + r * shared + k, positive(sum));
    }
  }
}

// where the targets stand, and in `room` what their sketches share with the source's
template <int Rows>
void find_targets(const Decoder& decoder, const float* own, const int64_t* rows, int64_t begin, const float** y,
                  const float** shared, float* room) {
  for (int r = 0; r < Rows; ++r) y[r] = decoder.y + (rows ? rows[begin + r] : begin + r) * decoder.stride;
  if (!decoder.shared) return;
  shared_of<Rows>(decoder, own, y, room);
  for (int r = 0; r < Rows; ++r) shared[r] = room + r * decoder.shared;
}

template <int Rows>
void score_some(const Decoder& decoder, const float* weights, const float* own, const int64_t* rows, int64_t begin,
                float* scores, float* room) {
  const float *y[Rows], *shared[Rows] = {};
  find_targets<Rows>(decoder, own, rows, begin, y, shared, room);
  Lanes totals[Rows];
  for (int r = 0; r < Rows; ++r) totals[r] = Lanes{};
  for (int64_t p = 0; p < decoder.panels; ++p) {
    Lanes sums[Rows][2];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      sums[r][0] = at(decoder.bias + p * kWide);
      sums[r][1] = at(decoder.bias + p * kWide + kLanes);
    }
    add_products<Rows>(y, decoder.size, weights + p * decoder.size * kWide, sums);
    if (decoder.shared) add_products<Rows>(shared, decoder.shared, decoder.mixed + p * decoder.shared * kWide, sums);
    const Lanes first = at(decoder.output + p * kWide), second = at(decoder.output + p * kWide + kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      totals[r] += positive(sums[r][0]) * first;
      totals[r] += positive(sums[r][1]) * second;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    scores[begin + r] = sum_of(totals[r]) + decoder.output_bias;
    if (decoder.residual) scores[begin + r] += dot(weights + decoder.panels * decoder.size * kWide, y[r], decoder.size);
    if (decoder.direct) scores[begin + r] += dot(decoder.direct, shared[r], decoder.shared);
  }
}

// (Rows, padded) sums of a hidden layer that reads (Rows, size) x, and `shared` if there is any
template <int Rows>
void hidden_sums(const Decoder& decoder, const float* const* x, int64_t size, const float* weights, const float* bias,
                 const float* const* shared, float* out) {
  const int64_t padded = decoder.panels * kWide;
  for (int64_t p = 0; p < decoder.panels; ++p) {
    Lanes sums[Rows][2];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      sums[r][0] = at(bias + p * kWide);
      sums[r][1] = at(bias + p * kWide + kLanes);
    }
    add_products<Rows>(x, size, weights + p * size * kWide, sums);
    if (shared) add_products<Rows>(shared, decoder.shared, decoder.mixed + p * decoder.shared * kWide, sums);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      put(out + r * padded + p * kWide, sums[r][0]);
      put(out + r * padded + p * kWide + kLanes, sums[r][1]);
    }
  }
}

// a hidden layer's sums: normalised if asked for, then positive
void activate(const Decoder& decoder, int64_t layer, float* x) {
  const int64_t padded = decoder.panels * kWide, width = decoder.width;
  if (decoder.norms) {
    Lanes sums{};
    float mean = 0, variance = 0;
    int64_t k = 0;
    for (; k + kLanes <= width; k += kLanes) sums += at(x + k);
    for (; k < width; ++k) mean += x[k];
    mean = (mean + sum_of(sums)) / width;
    sums = Lanes{};
    for (k = 0; k + kLanes <= width; k += kLanes) sums += (at(x + k) - mean) * (at(x + k) - mean);
    for (; k < width; ++k) variance += (x[k] - mean) * (x[k] - mean);
    const float scale = 1 / std::sqrt((variance + sum_of(sums)) / width + decoder.epsilon);
    const float *factors = decoder.norms + 2 * layer * padded, *shifts = factors + padded;  // zero beyond the width
    for (k = 0; k < padded; k += kLanes) put(x + k, (at(x + k) - mean) * scale * at(factors + k) + at(shifts + k));
  }
  for (int64_t k = 0; k < padded; k += kLanes) put(x + k, positive(at(x + k)));
}

// as score_some; a residual's (size,) weights are the source's embedding: times the target's they are what it adds
template <int Rows>
void score_deep(const Decoder& decoder, const float* weights, const float* own, const int64_t* rows, int64_t begin,
                float* scores, float* room) {
  const int64_t padded = decoder.panels * kWide, step = decoder.panels * kWide * (decoder.width + 1);
  const float *y[Rows], *shared[Rows] = {}, *x[Rows];
  find_targets<Rows>(decoder, own, rows, begin, y, shared, room);
  float *made = room + Rows * decoder.shared, *next = made + Rows * padded;
  hidden_sums<Rows>(decoder, y, decoder.size, weights, decoder.bias, decoder.shared ? shared : nullptr, made);
  const float* source = weights + decoder.size * padded;
  for (int r = 0; r < Rows; ++r) {
    activate(decoder, 0, made + r * padded);
    if (decoder.residual)
      for (int64_t k = 0; k < decoder.size; ++k) made[r * padded + k] += source[k] * y[r][k];
  }
  for (int64_t layer = 1; layer <= decoder.num_later; ++layer, std::swap(made, next)) {
    for (int r = 0; r < Rows; ++r) x[r] = made + r * padded;
    const float* later = decoder.later + (layer - 1) * step;
    hidden_sums<Rows>(decoder, x, decoder.width, later, later + decoder.width * padded, nullptr, next);
    for (int r = 0; r < Rows; ++r) {
      activate(decoder, layer, next + r * padded);
      if (decoder.adds)
        for (int64_t k = 0; k < padded; k += kLanes) put(next + r * padded + k, at(next + r * padded + k) + at(x[r] + k));
    }
  }
  for (int r = 0; r < Rows; ++r) scores[begin + r] = dot(decoder.output, made + r * padded, padded) + decoder.output_bias;
}

template <int Rows>
void score_any(const Decoder& decoder, const float* weights, const float* own, const int64_t* rows, int64_t begin,
               float* scores, float* room) {
  if (decoder.num_later || decoder.norms)
    score_deep<Rows>(decoder, weights, own, rows, begin, scores, room);
  else
    score_some<Rows>(decoder, weights, own, rows, begin, scores, room);
}

// the first layer's weights with a source folded in, and a residual's: made in `room`, or as they were given
const float* folded(const Decoder& decoder, const float* weights, std::vector<float>& room) {
  if (!decoder.first) return weights;
  const int64_t size = decoder.size, whole = decoder.panels * size * kWide;
  const bool is_deep = decoder.num_later || decoder.norms;
  room.resize(whole + size);
  for (int64_t p = 0; p < decoder.panels; ++p)
    for (int64_t k = 0; k < size; ++k) {
      const int64_t place = (p * size + k) * kWide;
      put(room.data() + place, weights[k] * at(decoder.first + place));
      put(room.data() + place + kLanes, weights[k] * at(decoder.first + place + kLanes));
    }
  if (decoder.residual)  // what the output makes of the products, or the products themselves for the layers between
    for (int64_t k = 0; k < size; ++k) room[whole + k] = is_deep ? weights[k] : decoder.output[k] * weights[k];
  return room.data();
}

// how many numbers of `weights` belong to one source
int64_t weights_of_source(const Decoder& decoder) {
  if (decoder.first) return decoder.size;
  return (decoder.panels * kWide + (decoder.residual ? 1 : 0)) * decoder.size;
}

void score_range(const Decoder& decoder, const float* weights, const float* own, const int64_t* rows, int64_t begin,
                 int64_t end, float* scores) {
  std::vector<float> room(kRows * (decoder.shared + 2 * decoder.panels * kWide));
  int64_t i = begin;
  for (; i + kRows <= end; i += kRows) {
    for (int64_t next = i + kRows; next < std::min(end, i + 2 * kRows); ++next)
      ask_for(decoder.y + (rows ? rows[next] : next) * decoder.stride, decoder.stride);
    score_any<kRows>(decoder, weights, own, rows, i, scores, room.data());
  }
  if (i < end && end - begin >= kRows) {  // the last ones with some before them again, which score as they did
    score_any<kRows>(decoder, weights, own, rows, end - kRows, scores, room.data());
    i = end;
  }
  if (i == end) return;
  // fewer rows than a block has: filled up, because code for other numbers of rows may round in another way
  int64_t filled[kRows];
  float made[kRows];
  for (int r = 0; r < kRows; ++r) filled[r] = rows ? rows[std::min(i + r, end - 1)] : std::min(i + r, end - 1);
  score_any<kRows>(decoder, weights, own, filled, 0, made, room.data());
  for (int r = 0; i + r < end; ++r) scores[i + r] = made[r];
}

// one hidden layer on the way back: (width,) derivatives in what it gives, `x`, become those in its sums
void back_through(const Decoder& decoder, int64_t layer, const float* sums, const float* x, float* slopes) {
  const int64_t padded = decoder.panels * kWide, width = decoder.width;
  for (int64_t k = 0; k < padded; ++k) slopes[k] = x[k] > 0 ? slopes[k] : 0;
  if (!decoder.norms) return;
  const float* factors = decoder.norms + 2 * layer * padded;
  float mean = 0, variance = 0, straight = 0, along = 0;
  for (int64_t k = 0; k < width; ++k) mean += sums[k];
  mean /= width;
  for (int64_t k = 0; k < width; ++k) variance += (sums[k] - mean) * (sums[k] - mean);
  const float scale = 1 / std::sqrt(variance / width + decoder.epsilon);
  for (int64_t k = 0; k < width; ++k) {
    slopes[k] *= factors[k];
    straight += slopes[k];
    along += slopes[k] * (sums[k] - mean) * scale;
  }
  for (int64_t k = 0; k < width; ++k)
    slopes[k] = scale * (slopes[k] - straight / width - (sums[k] - mean) * scale * along / width);
}

// What gradients of one source need, summed over the places: the derivatives in the sums of the first layer, in the
// products of embeddings that a residual adds, and in the estimates of the sketches.
struct Slopes {
  float* first;     // (padded,)
  float* products;  // (padded,)
  float estimates[kEstimates];
};

// derivatives of the score of some places; `number` of them count
template <int Rows>
void add_slopes(const Decoder& decoder, const float* weights, const float* own, const int64_t* rows, int64_t number,
                float* room, Slopes& total) {
  const int64_t padded = decoder.panels * kWide, layers = 1 + decoder.num_later, shared = decoder.shared;
  const int64_t step = padded * (decoder.width + 1);
  const float *y[Rows], *said[Rows] = {}, *x[Rows];
  float logarithms[4][kRows + kLanes];
  for (int r = 0; r < Rows; ++r) y[r] = decoder.y + rows[r] * decoder.stride;
  float *slopes = room + Rows * shared, *below = slopes + padded, *made = below + padded;
  float *sums = made + Rows * padded * layers, *acted = sums + Rows * padded * layers;
  if (shared) {
    shared_of<Rows>(decoder, own, y, room, logarithms);
    for (int r = 0; r < Rows; ++r) said[r] = room + r * shared;
  }
  for (int64_t layer = 0; layer < layers && padded; ++layer) {
    float *out = made + layer * Rows * padded, *summed = sums + layer * Rows * padded;
    if (layer == 0) {
      hidden_sums<Rows>(decoder, y, decoder.size, weights, decoder.bias, shared && !decoder.direct ? said : nullptr, summed);
    } else {
      for (int r = 0; r < Rows; ++r) x[r] = made + ((layer - 1) * Rows + r) * padded;
      const float* later = decoder.later + (layer - 1) * step;
      hidden_sums<Rows>(decoder, x, decoder.width, later, later + decoder.width * padded, nullptr, summed);
    }
    for (int64_t k = 0; k < Rows * padded; ++k) out[k] = summed[k];
    for (int r = 0; r < Rows; ++r) activate(decoder, layer, out + r * padded);
    for (int64_t k = 0; k < Rows * padded; ++k) acted[layer * Rows * padded + k] = out[k];
    if (layer && decoder.adds)
      for (int64_t k = 0; k < Rows * padded; ++k) out[k] += out[k - Rows * padded];
    else if (!layer && decoder.residual && layers > 1) {
      const float* source = weights + decoder.size * padded;
      for (int r = 0; r < Rows; ++r)
        for (int64_t k = 0; k < decoder.size; ++k) out[r * padded + k] += source[k] * y[r][k];
    }
  }
  for (int r = 0; r < number; ++r) {
    for (int64_t k = 0; k < padded; ++k) slopes[k] = decoder.output[k];
    for (int64_t layer = layers - 1; layer > 0; --layer) {
      const int64_t place = (layer * Rows + r) * padded;
      for (int64_t k = 0; k < padded; ++k) below[k] = decoder.adds ? slopes[k] : 0;
      back_through(decoder, layer, sums + place, acted + place, slopes);
      const float* later = decoder.later + (layer - 1) * step;
      for (int64_t p = 0; p < decoder.panels; ++p)
        for (int64_t k = 0; k < decoder.width; ++k) {
          const float* w = later + (p * decoder.width + k) * kWide;
          below[k] += sum_of(at(w) * at(slopes + p * kWide) + at(w + kLanes) * at(slopes + p * kWide + kLanes));
        }
      std::swap(slopes, below);
    }
    if (padded) {
      for (int64_t k = 0; k < padded; ++k) total.products[k] += slopes[k];
      back_through(decoder, 0, sums + r * padded, acted + r * padded, slopes);
      for (int64_t k = 0; k < padded; ++k) total.first[k] += slopes[k];
    }
    float estimates[kEstimates] = {};
    for (int64_t k = 0; k < shared; ++k) {
      if (!(said[r][k] > 0)) continue;
      float slope = decoder.direct ? decoder.direct[k] : 0;
      if (!decoder.direct) {
        Lanes sum{};
        for (int64_t p = 0; p < decoder.panels; ++p) {
          const float* w = decoder.mixed + (p * shared + k) * kWide;
          sum += at(w) * at(slopes + p * kWide);
          sum += at(w + kLanes) * at(slopes + p * kWide + kLanes);
        }
        slope = sum_of(sum);
      }
      for (int e = 0; e < kEstimates; ++e) estimates[e] += slope * decoder.said[e * shared + k];
    }
    for (int e = 0; shared && e < kEstimates; ++e)
      total.estimates[e] += estimates[e] * (e < 4 ? logarithms[e][r] : 1);
  }
}

// the mean gradient of one source
void gradient_of(const Decoder& decoder, const float* weights, const float* own, const int64_t* rows, int64_t places,
                 std::vector<float>& work, float* out) {
  const int64_t padded = decoder.panels * kWide, size = decoder.size, f = decoder.sketch_size;
  work.assign(2 * padded + kRows * decoder.shared + 2 * padded + 3 * kRows * padded * (1 + decoder.num_later), 0);
  Slopes total{work.data(), work.data() + padded, {}};
  int64_t there[kRows], number = 0, counted = 0;
  const auto flush = [&] {
    for (int64_t r = number; r < kRows; ++r) there[r] = there[0];
    add_slopes<kRows>(decoder, weights, own, there, number, work.data() + 2 * padded, total);
    counted += number;
    number = 0;
  };
  for (int64_t place = 0; place < places; ++place) {
    if (rows[place] < 0) continue;
    there[number++] = rows[place];
    if (number == kRows) flush();
  }
  if (number) flush();
  const float share = 1.0f / std::max<int64_t>(1, counted), *rest = weights + size * padded;
  const bool is_deep = decoder.num_later || decoder.norms;
  for (int64_t k = 0; k < size; ++k) {
    Lanes sum{};
    for (int64_t p = 0; p < decoder.panels; ++p) {
      const float* w = weights + (p * size + k) * kWide;
      sum += at(w) * at(total.first + p * kWide);
      sum += at(w + kLanes) * at(total.first + p * kWide + kLanes);
    }
    out[k] = share * sum_of(sum);
    if (decoder.residual) out[k] += is_deep ? share * total.products[k] * rest[k] : rest[k];
  }
  if (!decoder.shared) return;
  const float *near = own + size, *scarce = near + f, *far = scarce + f, *slopes = total.estimates;
  for (int64_t k = 0; k < f; ++k) {
    out[size + k] = share * (slopes[0] * near[k] + slopes[2] * far[k]);
    out[size + f + k] = share * slopes[1] * scarce[k];
    out[size + 2 * f + k] = share * (slopes[2] * near[k] + slopes[3] * far[k]);
  }
  out[size + 3 * f] = share * (slopes[4] + slopes[5] * near[3 * f]);
}

}  // namespace

extern "C" {

// scores of one source: of the targets rows[begin..end), or of the rows begin..end themselves; `weights` are
// (panels, size, kWide) and perhaps (size,) with the source folded in, or the (size,) numbers to fold; `own` is its row
void score_targets(const Decoder* decoder, const float* weights, const float* own, const int64_t* rows, int64_t begin,
                   int64_t end, float* scores) {
  std::vector<float> room;
  score_range(*decoder, folded(*decoder, weights, room), own, rows, begin, end, scores);
}

// scores of (sources, count) rows, of which -1 stands for none; `weights` and `own` hold one after the other
void score_candidates(const Decoder* decoder, const float* weights, const float* own, const int64_t* rows,
                      int64_t count, int64_t begin, int64_t end, float* scores) {
  const int64_t step = weights_of_source(*decoder);
  std::vector<int64_t> kept(count), places(count);
  std::vector<float> made(count), room;
  for (int64_t source = begin; source < end; ++source) {
    int64_t number = 0;
    for (int64_t c = 0; c < count; ++c) {
      scores[source * count + c] = -INFINITY;
      if (rows[source * count + c] < 0) continue;
      kept[number] = rows[source * count + c];
      places[number++] = c;
    }
    const float* mine = folded(*decoder, weights + source * step, room);
    score_range(*decoder, mine, own + source * decoder->stride, kept.data(), 0, number, made.data());
    for (int64_t c = 0; c < number; ++c) scores[source * count + places[c]] = made[c];
  }
}

// (sources, columns) means of the score's gradients in the target's row, at (sources, places) rows of y; -1 is no place
void mean_gradients(const Decoder* decoder, const float* weights, const float* own, const int64_t* rows, int64_t places,
                    int64_t columns, int64_t begin, int64_t end, float* gradients) {
  const int64_t step = weights_of_source(*decoder);
  std::vector<float> room, work;
  for (int64_t source = begin; source < end; ++source) {
    const float* mine = folded(*decoder, weights + source * step, room);
    gradient_of(*decoder, mine, own + source * decoder->stride, rows + source * places, places, work,
                gradients + source * columns);
  }
}

// products of (sources, size) queries with (sources, count) rows of y, of which -1 stands for none
void dot_candidates(const float* y, int64_t stride, const float* queries, int64_t size, float bias,
                    const int64_t* rows, int64_t count, int64_t begin, int64_t end, float* scores) {
  for (int64_t source = begin; source < end; ++source) {
    for (int64_t c = 0; c < count; ++c) {
      const int64_t row = rows[source * count + c];
      if (c + kAhead < count && rows[source * count + c + kAhead] >= 0)
        ask_for(y + rows[source * count + c + kAhead] * stride, size);
      scores[source * count + c] = row < 0 ? -INFINITY : dot(queries + source * size, y + row * stride, size) + bias;
    }
  }
}

struct Screen {
  const int8_t* codes;    // (n, columns) rows, a byte a number
  int64_t columns;        // a multiple of 4
  const int32_t* starts;  // (n,) what sums begin with: weights are stored 128 too large
  const float* errors;    // (n,) lengths of what rounding took of the rows
  const float* norms;     // (n,) lengths of the codes
  int64_t panels;
  const float* bias;      // (panels, kWide), as are scales and output
  const float* scales;
  const float* output;
  float constant, per_error, per_norm;
  const float* residual;   // (columns,) by which codes are multiplied and added to the score, or none
  const Decoder* decoder;  // whose sketches have more columns of a pair, or none; its rows begin where the codes do
  const float* own;        // the source's row
  const float* inverse;    // (shared,) what a unit of them is in codes
};

}  // extern "C"

namespace {

#ifdef __AVX512VNNI__
// sums += four columns of some rows times the weights of kWide hidden units
template <int Rows>
inline void add_quad(const uint8_t* w, const int8_t* codes, int64_t stride, Ints (&first)[Rows], Ints (&second)[Rows]) {
  const __m512i left = _mm512_loadu_si512(w), right = _mm512_loadu_si512(w + 64);
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    const __m512i code = _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(codes + r * stride));
    first[r] = (Ints)_mm512_dpbusd_epi32((__m512i)first[r], left, code);
    second[r] = (Ints)_mm512_dpbusd_epi32((__m512i)second[r], right, code);
  }
}

// totals += o ReLU(z) for kLanes hidden units whose sums are given
template <int Rows>
inline void add_units(const Screen& screen, int64_t unit, const Ints (&sums)[Rows], Lanes (&totals)[Rows]) {
  const Lanes bias = at(screen.bias + unit), scale = at(screen.scales + unit), output = at(screen.output + unit);
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    totals[r] += positive(bias + scale * __builtin_convertvector(sums[r], Lanes)) * output;
}
#endif

// What sketches say of some pairs, in codes; starts, and squared lengths of errors and codes, grow by theirs.
template <int Rows>
void shared_codes(const Screen& screen, int64_t begin, float* room, int8_t* codes, int32_t* starts, float* errors,
                  float* norms) {
  const Decoder& decoder = *screen.decoder;
  const float* y[kRows];
  for (int r = 0; r < kRows; ++r) y[r] = decoder.y + (begin + std::min(r, Rows - 1)) * decoder.stride;
  shared_of<kRows>(decoder, screen.own, y, room);
  for (int r = 0; r < Rows; ++r) {
    Lanes error{}, norm{};
    Bits sums{};
    for (int64_t k = 0; k < decoder.shared; k += kLanes) {
      const Lanes given = at(room + r * decoder.shared + k) * at(screen.inverse + k);
      const Bits code = __builtin_convertvector((given < 126.5f ? given : 126.5f + Lanes{}) + 0.5f, Bits);
      const Lanes rounded = __builtin_convertvector(code, Lanes);
      error += (given - rounded) * (given - rounded);
      norm += rounded * rounded;
      sums += code;
#ifdef __AVX512F__
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + r * decoder.shared + k), _mm512_cvtepi32_epi8((__m512i)code));
#else
      for (int lane = 0; lane < kLanes; ++lane) codes[r * decoder.shared + k + lane] = (int8_t)code[lane];
#endif
    }
    starts[r] -= 128 * (int32_t)sum_of(__builtin_convertvector(sums, Lanes));  // far below 2^24: exact
    errors[r] += sum_of(error);
    norms[r] += sum_of(norm);
  }
}

float dot_codes(const float* a, const int8_t* codes, int64_t size) {
  Lanes sums{};
  int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
#ifdef __AVX512F__
    const Bits wide = (Bits)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + k)));
#else
    Bits wide;
    for (int lane = 0; lane < kLanes; ++lane) wide[lane] = codes[k + lane];
#endif
    sums += at(a + k) * __builtin_convertvector(wide, Lanes);
  }
  float rest = 0;
  for (; k < size; ++k) rest += a[k] * codes[k];
  return sum_of(sums) + rest;
}

template <int Rows>
void bound_some(const Screen& screen, const uint8_t* weights, int64_t begin, float* bounds, float* room) {
  const int64_t shared = screen.decoder ? screen.decoder->shared : 0, columns = screen.columns + shared;
  const int64_t stored = screen.columns / 4, quads = columns / 4;
  const int8_t* codes = screen.codes + begin * screen.columns;
  int8_t* more = reinterpret_cast<int8_t*>(room + kRows * shared);  // codes of what sketches say
  int32_t starts[Rows];
  float errors[Rows], norms[Rows];
  for (int r = 0; r < Rows; ++r) {
    starts[r] = screen.starts[begin + r];
    errors[r] = screen.errors[begin + r] * screen.errors[begin + r];
    norms[r] = screen.norms[begin + r] * screen.norms[begin + r];
  }
  if (shared) shared_codes<Rows>(screen, begin, room, more, starts, errors, norms);
  Lanes totals[Rows];
  for (int r = 0; r < Rows; ++r) totals[r] = Lanes{};
  for (int64_t p = 0; p < screen.panels; ++p) {
    const uint8_t* w = weights + p * columns * kWide;
#ifdef __AVX512VNNI__
    Ints first[Rows], second[Rows];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) first[r] = second[r] = Ints{} + starts[r];
    for (int64_t k = 0; k < stored; ++k) add_quad<Rows>(w + k * 4 * kWide, codes + 4 * k, screen.columns, first, second);
    for (int64_t k = stored; k < quads; ++k)
      add_quad<Rows>(w + k * 4 * kWide, more + 4 * (k - stored), shared, first, second);
    add_units<Rows>(screen, p * kWide, first, totals);
    add_units<Rows>(screen, p * kWide + kLanes, second, totals);
#else
    for (int r = 0; r < Rows; ++r) {
      int32_t sums[kWide];
      for (int unit = 0; unit < kWide; ++unit) sums[unit] = starts[r];
      for (int64_t k = 0; k < quads; ++k) {
        const int8_t* quad = k < stored ? codes + r * screen.columns + 4 * k : more + r * shared + 4 * (k - stored);
        for (int unit = 0; unit < kWide; ++unit)
          for (int b = 0; b < 4; ++b) sums[unit] += w[4 * (k * kWide + unit) + b] * quad[b];
      }
      for (int unit = 0; unit < kWide; ++unit) {
        const float z = screen.bias[p * kWide + unit] + screen.scales[p * kWide + unit] * sums[unit];
        totals[r][unit % kLanes] += (z < 0 ? 0 : z) * screen.output[p * kWide + unit];
      }
    }
#endif
  }
  for (int r = 0; r < Rows; ++r) {
    bounds[begin + r] = sum_of(totals[r]) + screen.constant + screen.per_error * std::sqrt(errors[r]) +
                        screen.per_norm * std::sqrt(norms[r]);
    if (screen.residual) bounds[begin + r] += dot_codes(screen.residual, codes + r * screen.columns, screen.columns);
  }
}

}  // namespace

extern "C" {

int32_t screens_quickly() {
#ifdef __AVX512VNNI__
  return 1;
#else
  return 0;
#endif
}

// upper bounds of the scores of rows begin..end; `weights` are (panels, columns / 4, kWide, 4)
void bound_targets(const Screen* screen, const uint8_t* weights, int64_t begin, int64_t end, float* bounds) {
  int64_t i = begin;
  std::vector<float> room(screen->decoder ? 2 * kRows * screen->decoder->shared : 0);
  for (; i + kRows <= end; i += kRows) bound_some<kRows>(*screen, weights, i, bounds, room.data());
  for (; i < end; ++i) bound_some<1>(*screen, weights, i, bounds, room.data());
}

struct Lists {
  const uint8_t* codes;    // (groups, columns / 4, kGroup, 4)
  const int32_t* rows;     // (groups, kGroup), -1 where a group is not full
  const int64_t* starts;   // (cells + 1,) in groups
  const uint8_t* is_stale; // (rows,) or none: rows that are passed over
  int64_t columns;         // a multiple of 4
  const int64_t* left_out; // rows that a query passes over, one query's after the other's
  const int64_t* ends;     // (queries + 1,) where they begin and end
  const int64_t* met;      // (queries, num_met) more of them; -1 is none
  int64_t num_met;
};

uint64_t structure_layout() {
  return abi::layout_of({
      STRUCTURE(Decoder), FIELD(Decoder, y), FIELD(Decoder, stride), FIELD(Decoder, size), FIELD(Decoder, panels),
      FIELD(Decoder, shared), FIELD(Decoder, sketch_size), FIELD(Decoder, bias), FIELD(Decoder, output),
      FIELD(Decoder, first), FIELD(Decoder, mixed), FIELD(Decoder, direct), FIELD(Decoder, said),
      FIELD(Decoder, said_bias), FIELD(Decoder, output_bias), FIELD(Decoder, residual), FIELD(Decoder, width),
      FIELD(Decoder, num_later), FIELD(Decoder, later), FIELD(Decoder, norms), FIELD(Decoder, epsilon),
      FIELD(Decoder, adds),
      STRUCTURE(Screen), FIELD(Screen, codes), FIELD(Screen, columns), FIELD(Screen, starts), FIELD(Screen, errors),
      FIELD(Screen, norms), FIELD(Screen, panels), FIELD(Screen, bias), FIELD(Screen, scales), FIELD(Screen, output),
      FIELD(Screen, constant), FIELD(Screen, per_error), FIELD(Screen, per_norm), FIELD(Screen, residual),
      FIELD(Screen, decoder), FIELD(Screen, own), FIELD(Screen, inverse),
      STRUCTURE(Lists), FIELD(Lists, codes), FIELD(Lists, rows), FIELD(Lists, starts), FIELD(Lists, is_stale),
      FIELD(Lists, columns), FIELD(Lists, left_out), FIELD(Lists, ends), FIELD(Lists, met), FIELD(Lists, num_met)
  });
}

}  // extern "C"

namespace {

// 128 coarse + fine products of a query with the rows of some groups; those kGroups further on are asked for
template <int Groups>
inline void products(const uint8_t* codes, int64_t columns, const int8_t* coarse, const int8_t* fine, Ints* out) {
  const int64_t quads = columns / 4;
  Ints large[Groups], small[Groups];
#pragma GCC unroll 4
  for (int g = 0; g < Groups; ++g) large[g] = small[g] = Ints{};
  for (int64_t k = 0; k < quads; ++k) {
#ifdef __AVX512VNNI__
    const __m512i first = _mm512_set1_epi32(reinterpret_cast<const int32_t*>(coarse)[k]);
    const __m512i second = _mm512_set1_epi32(reinterpret_cast<const int32_t*>(fine)[k]);
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) {
      const uint8_t* here = codes + (g * quads + k) * 4 * kGroup;
      __builtin_prefetch(here + kGroups * quads * 4 * kGroup);
      const __m512i code = _mm512_loadu_si512(here);
      large[g] = (Ints)_mm512_dpbusd_epi32((__m512i)large[g], code, first);
      small[g] = (Ints)_mm512_dpbusd_epi32((__m512i)small[g], code, second);
    }
#else
    for (int g = 0; g < Groups; ++g)
      for (int r = 0; r < kGroup; ++r)
        for (int b = 0; b < 4; ++b) {
          const int32_t code = codes[(g * quads + k) * 4 * kGroup + 4 * r + b];
          large[g][r] += code * coarse[4 * k + b];
          small[g][r] += code * fine[4 * k + b];
        }
#endif
  }
#pragma GCC unroll 4
  for (int g = 0; g < Groups; ++g) out[g] = 128 * large[g] + small[g];
}

// rows that one query passes over: a hash table, filled anew for each
class PassedOver {
 public:
  void fill(const Lists& lists, int64_t query) {
    const int64_t first = lists.ends[query], last = lists.ends[query + 1];
    size_t size = 16;
    while (size < 2 * (size_t)(last - first + lists.num_met)) size *= 2;
    places_.assign(size, -1);
    for (int64_t i = first; i < last; ++i) insert((int32_t)lists.left_out[i]);
    const int64_t* met = lists.met + query * lists.num_met;
    for (int64_t i = 0; i < lists.num_met; ++i)
      if (met[i] >= 0) insert((int32_t)met[i]);
  }
  bool holds(int32_t row) const { return places_[place_of(row)] == row; }

 private:
  size_t place_of(int32_t row) const {  // where the row stands, or the free place where it would
    size_t place = (uint32_t)row * 2654435769u & (places_.size() - 1);
    while (places_[place] >= 0 && places_[place] != row) place = (place + 1) & (places_.size() - 1);
    return place;
  }
  void insert(int32_t row) { places_[place_of(row)] = row; }
  std::vector<int32_t> places_;
};

bool any_above(Ints sums, int32_t bar) {
#ifdef __AVX512F__
  return _mm512_cmpgt_epi32_mask((__m512i)sums, _mm512_set1_epi32(bar));
#else
  for (int r = 0; r < kGroup; ++r)
    if (sums[r] > bar) return true;
  return false;
#endif
}

}  // namespace

extern "C" {

// The `count` rows of largest products with each query among the cells that it looks into, in no order; -1 fills up.
// `queries` are (queries, 2, columns): a coarse digit and a fine one, 1/128 of it.
void scan_lists(const Lists* lists, const int8_t* queries, const int32_t* cells, int64_t probes, int64_t count,
                int64_t begin, int64_t end, int64_t* found) {
  const int64_t room = 4 * count + kGroup;
  std::vector<std::pair<int32_t, int32_t>> best(room);
  PassedOver passed;
  const auto above = [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  for (int64_t q = begin; q < end; ++q) {
    const int8_t* coarse = queries + 2 * q * lists->columns;
    const int8_t* fine = coarse + lists->columns;
    passed.fill(*lists, q);
    int64_t size = 0;
    int32_t bar = INT32_MIN;
    for (int64_t p = 0; p < probes; ++p) {
      const int32_t cell = cells[q * probes + p];
      if (cell < 0) continue;
      const int64_t end = lists->starts[cell + 1];
      Ints sums[kGroups];
      int made = 0;  // groups whose sums are at hand, and the next of them
      int next = 0;
      for (int64_t g = lists->starts[cell]; g < end; ++g) {
        if (next == made) {
          const uint8_t* codes = lists->codes + g * kGroup * lists->columns;
          made = g + kGroups <= end ? kGroups : 1;
          next = 0;
          if (made == kGroups)
            products<kGroups>(codes, lists->columns, coarse, fine, sums);
          else
            products<1>(codes, lists->columns, coarse, fine, sums);
        }
        const Ints here = sums[next++];
        if (!any_above(here, bar)) continue;
        const int32_t* rows = lists->rows + g * kGroup;
        for (int r = 0; r < kGroup; ++r) {
          if (here[r] <= bar || rows[r] < 0 || (lists->is_stale && lists->is_stale[rows[r]])) continue;
          if (passed.holds(rows[r])) continue;
          best[size++] = {here[r], rows[r]};
        }
        if (size + kGroup > room) {
          std::nth_element(best.begin(), best.begin() + count - 1, best.begin() + size, above);
          size = count;
          bar = best[count - 1].first;
        }
      }
    }
    if (size > count) {
      std::nth_element(best.begin(), best.begin() + count - 1, best.begin() + size, above);
      size = count;
    }
    for (int64_t c = 0; c < count; ++c) found[q * count + c] = c < size ? best[c].second : -1;
  }
}

// The `keep` best of (sources, count) candidates with their scores, each row once, the higher score first and equal ones
// in the order of rows; -1 and -inf fill up. A row's scores are equal wherever it stands, so that copies are neighbours.
void keep_best(const int64_t* rows, const float* scores, int64_t count, int64_t keep, int64_t begin, int64_t end,
               int64_t* best_rows, float* best_scores) {
  std::vector<std::pair<float, int64_t>> all(count);
  for (int64_t source = begin; source < end; ++source) {
    int64_t size = 0;
    for (int64_t c = source * count; c < (source + 1) * count; ++c)
      if (rows[c] >= 0) all[size++] = {-scores[c], rows[c]};
    for (int64_t sorted = std::min(size, 2 * keep);; sorted = std::min(size, 2 * sorted)) {
      std::partial_sort(all.begin(), all.begin() + sorted, all.begin() + size);
      int64_t made = 0;
      for (int64_t c = 0; c < sorted && made < keep; ++c) {
        if (c && all[c] == all[c - 1]) continue;
        best_rows[source * keep + made] = all[c].second;
        best_scores[source * keep + made++] = -all[c].first;
      }
      if (made < keep && sorted < size) continue;
      for (; made < keep; ++made) {
        best_rows[source * keep + made] = -1;
        best_scores[source * keep + made] = -INFINITY;
      }
      break;
    }
  }
}

}  // extern "C"

namespace {

// The best of one source so far, with those that rounding might lift above them.
struct Best {
  std::vector<std::pair<float, int64_t>> kept;  // scores and rows
  float bar = -INFINITY;
  float scale;            // the largest score's size
  size_t room;            // of `kept`: beyond, it is tightened
  int64_t not_a_number = -1;

  void tighten(int64_t k, float tolerance) {
    if ((int64_t)kept.size() > k) {
      for (const auto& each : kept) scale = std::max(scale, std::fabs(each.first));
      const auto larger = [](const auto& a, const auto& b) { return a.first > b.first; };
      std::nth_element(kept.begin(), kept.begin() + k - 1, kept.end(), larger);
      bar = kept[k - 1].first - tolerance * scale;
      const auto out = [&](const auto& each) { return each.first < bar; };
      kept.erase(std::remove_if(kept.begin() + k, kept.end(), out), kept.end());
    }
    room = std::max<size_t>(4 * k + 1024, 2 * kept.size());  // many equal ones all stay
  }
};

struct Collector {
  int64_t k;
  float tolerance;
  std::vector<Best> sources;
  std::vector<int64_t> left_out, ends;  // sorted rows that a source passes over, one source's after the other's
};

}  // namespace

extern "C" {

Collector* new_collector(int64_t sources, int64_t k, float tolerance, float scale, const int64_t* left_out,
                         const int64_t* ends) {
  const size_t room = 4 * k + 1024;
  return new Collector{k, tolerance, std::vector<Best>(sources, Best{{}, -INFINITY, scale, room, -1}),
                       {left_out, left_out + ends[sources]}, {ends, ends + sources + 1}};
}

void free_collector(Collector* collector) { delete collector; }

// Scores of `count` rows for the sources begin..end; scores are (sources, count), and `rows` their numbers.
void collect(Collector* collector, const float* scores, const int64_t* rows, int64_t count, int64_t begin, int64_t end) {
  for (int64_t source = begin; source < end; ++source) {
    Best& best = collector->sources[source];
    const float* mine = scores + source * count;
    const int64_t *out = collector->left_out.data() + collector->ends[source],
                  *last_out = collector->left_out.data() + collector->ends[source + 1];
    for (int64_t first = 0; first < count; first += 64) {
      const int64_t last = std::min(count, first + 64);
      int any = 0;
      for (int64_t i = first; i < last; ++i) any |= !(mine[i] < best.bar);
      if (!any) continue;
      for (int64_t i = first; i < last; ++i) {
        if (mine[i] < best.bar || mine[i] == -INFINITY || std::binary_search(out, last_out, rows[i])) continue;
        if (mine[i] != mine[i])
          best.not_a_number = rows[i];
        else
          best.kept.push_back({mine[i], rows[i]});
      }
      if (best.kept.size() > best.room) best.tighten(collector->k, collector->tolerance);
    }
  }
}

// how many rows are kept for a source; -1 - row if the score of a row is not a number
int64_t num_collected(Collector* collector, int64_t source) {
  Best& best = collector->sources[source];
  if (best.not_a_number >= 0) return -1 - best.not_a_number;
  best.tighten(collector->k, collector->tolerance);
  return best.kept.size();
}

// the rows that are kept for a source, in no order
void collected(const Collector* collector, int64_t source, int64_t* rows) {
  for (const auto& each : collector->sources[source].kept) *rows++ = each.second;
}

// Places of the scores that reach a bar, and of NaN; returns how many.
int64_t select_above(const float* scores, int64_t count, float bar, int64_t* places) {
  int64_t found = 0;
  for (int64_t first = 0; first < count; first += 256) {
    const int64_t last = std::min(count, first + 256);
    int any = 0;
    for (int64_t i = first; i < last; ++i) any |= !(scores[i] < bar);
    if (!any) continue;
    for (int64_t i = first; i < last; ++i)
      if (!(scores[i] < bar)) places[found++] = i;
  }
  return found;
}

}  // extern "C"
