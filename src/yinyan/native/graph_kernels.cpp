// The layer over compressed rows, and what is built anew at each step: negative graphs, degrees, values.
//
// Every function works on a range [begin, end) of rows, so that the caller's threads need no lock, and the order of
// each sum is the order of the stored entries: results do not depend on the number of threads.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "abi.h"
#include "processor.h"

namespace {

constexpr int kLanes = 16;    // floats worked on at once; compilers lower it to what the processor has
constexpr int kAhead = 24;    // entries whose rows are asked for in advance, into the second cache, every other line:
                              // the processor fetches lines in pairs
typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4)));
typedef uint16_t HalfLanes __attribute__((vector_size(2 * kLanes), aligned(2)));
typedef uint32_t WholeLanes __attribute__((vector_size(4 * kLanes), aligned(4)));

struct Float32 {
  using Stored = float;
  static Lanes load(const float* at) { return *reinterpret_cast<const Lanes*>(at); }
  static void store(float* at, Lanes x) { *reinterpret_cast<Lanes*>(at) = x; }
  static float load_one(const float* at) { return *at; }
  static void store_one(float* at, float x) { *at = x; }
};

struct BFloat16 {  // the upper half of a float32, rounded to nearest, ties to even
  using Stored = uint16_t;
  static Lanes load(const uint16_t* at) {
    WholeLanes bits = __builtin_convertvector(*reinterpret_cast<const HalfLanes*>(at), WholeLanes) << 16;
    return (Lanes)bits;  // the same bits, not the same numbers
  }
  static void store(uint16_t* at, Lanes x) {
    WholeLanes bits = (WholeLanes)x;
    bits += 0x7FFFu + ((bits >> 16) & 1u);
    *reinterpret_cast<HalfLanes*>(at) = __builtin_convertvector(bits >> 16, HalfLanes);
  }
  static float load_one(const uint16_t* at) {
    uint32_t bits = uint32_t(*at) << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  static void store_one(uint16_t* at, float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    *at = uint16_t((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }
};

}  // namespace

extern "C" {

struct Matrix {
  const int32_t* indptr;   // (rows + 1,)
  const int32_t* columns;  // (nnz,)
  const float* values;     // (nnz,)
  float factor;
  int32_t last;            // nnz - 1
};

struct Layer {
  int64_t size;            // d, the length of a row
  const void* x;           // (columns, d)
  const float* own;        // (rows,) or none
  const float* base;       // (rows,) or none
  const void* f;           // (rows, d) or none: base_i f_i is added
  float* gathered;         // (rows, d) or none: base_i x_i is added to it
  int64_t gathering;       // 0: as said; 1: it is stored there; 2: it and what is gathered are added to `out`
  const Matrix* matrices;
  int64_t num_matrices;
  const void* other;       // (rows, d) or none: its inner product with each matrix's part is taken
  const float* left;       // (rows, rank) or none: a low-rank matrix's first factor
  const float* right;      // (rank, d)
  int64_t rank;
  void* out;               // (rows, d)
  void* part;              // (rows, d) or none: the last matrix's own part, without its factor
  float* row_dots;         // (rows,) or none: <other_i, x_i>
  const float* next_left;  // (rows, next_rank) or none: the sums over rows of next_left_i out_i are taken
  int64_t next_rank;
};

uint64_t structure_layout() {
  return abi::layout_of({
      STRUCTURE(Matrix), FIELD(Matrix, indptr), FIELD(Matrix, columns), FIELD(Matrix, values), FIELD(Matrix, factor),
      FIELD(Matrix, last),
      STRUCTURE(Layer), FIELD(Layer, size), FIELD(Layer, x), FIELD(Layer, own), FIELD(Layer, base), FIELD(Layer, f),
      FIELD(Layer, gathered), FIELD(Layer, gathering), FIELD(Layer, matrices), FIELD(Layer, num_matrices),
      FIELD(Layer, other), FIELD(Layer, left), FIELD(Layer, right), FIELD(Layer, rank), FIELD(Layer, out),
      FIELD(Layer, part), FIELD(Layer, row_dots), FIELD(Layer, next_left), FIELD(Layer, next_rank)
  });
}

}  // extern "C"

namespace {

constexpr int64_t kStore = 1, kJoin = 2;  // ways of gathering

float sum_of(Lanes x) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
}

// One block of `Width` columns of row i. `dots` collects <other, S_k x> for each matrix k.
template <class Kind, int Width>
void block(const Layer& layer, int64_t i, int64_t column, double* dots) {
  using Stored = typename Kind::Stored;
  constexpr int kParts = Width / kLanes;
  const int64_t d = layer.size;
  const Stored* x = static_cast<const Stored*>(layer.x) + column;
  Lanes total[kParts];
#pragma GCC unroll 16
  for (int p = 0; p < kParts; ++p) total[p] = Lanes{};
  if (layer.own) {
    const float own = layer.own[i];
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) total[p] += own * Kind::load(x + i * d + p * kLanes);
  }
  if (layer.f) {
    const float base = layer.base[i];
    const Stored* f = static_cast<const Stored*>(layer.f) + i * d + column;
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) total[p] += base * Kind::load(f + p * kLanes);
  }
  if (layer.gathered) {
    const float base = layer.base[i];
    float* gathered = layer.gathered + i * d + column;
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      Lanes sum = base * Kind::load(x + i * d + p * kLanes);
      if (layer.gathering != kStore) sum += Float32::load(gathered + p * kLanes);
      if (layer.gathering == kJoin)
        total[p] += sum;
      else
        Float32::store(gathered + p * kLanes, sum);
    }
  }
  if (layer.row_dots) {
    const Stored* other = static_cast<const Stored*>(layer.other) + i * d + column;
    Lanes dot{};
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) dot += Kind::load(x + i * d + p * kLanes) * Kind::load(other + p * kLanes);
    layer.row_dots[i] = (column ? layer.row_dots[i] : 0.0f) + sum_of(dot);
  }
  for (int64_t r = 0; r < layer.rank; ++r) {
    const float left = layer.left[i * layer.rank + r];
    const float* right = layer.right + r * d + column;
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) total[p] += left * Float32::load(right + p * kLanes);
  }
  for (int64_t k = 0; k < layer.num_matrices; ++k) {
    const Matrix& m = layer.matrices[k];
    const int32_t last = m.indptr[i + 1];
    if (m.indptr[i] == last && !(layer.part && k + 1 == layer.num_matrices)) continue;  // one of many relations
    Lanes sum[kParts];
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) sum[p] = Lanes{};
    for (int32_t e = m.indptr[i]; e < last; ++e) {
      const int32_t next = e + kAhead < m.last ? e + kAhead : m.last;
      const char* ahead = reinterpret_cast<const char*>(x + int64_t(m.columns[next]) * d);
#pragma GCC unroll 16
      for (int line = 0; line < int(Width * sizeof(Stored)); line += 128) __builtin_prefetch(ahead + line, 0, 2);
      const float value = m.values[e];
      const Stored* row = x + int64_t(m.columns[e]) * d;
#pragma GCC unroll 16
      for (int p = 0; p < kParts; ++p) sum[p] += value * Kind::load(row + p * kLanes);
    }
    if (layer.other) {
      const Stored* other = static_cast<const Stored*>(layer.other) + i * d + column;
      Lanes dot{};
#pragma GCC unroll 16
      for (int p = 0; p < kParts; ++p) dot += sum[p] * Kind::load(other + p * kLanes);
      dots[k] += sum_of(dot);
    }
    if (layer.part && k + 1 == layer.num_matrices) {
      Stored* part = static_cast<Stored*>(layer.part) + i * d + column;
#pragma GCC unroll 16
      for (int p = 0; p < kParts; ++p) Kind::store(part + p * kLanes, sum[p]);
    }
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) total[p] += m.factor * sum[p];
  }
  Stored* out = static_cast<Stored*>(layer.out) + i * d + column;
#pragma GCC unroll 16
  for (int p = 0; p < kParts; ++p) Kind::store(out + p * kLanes, total[p]);
}

// The columns that fill no block, one by one.
template <class Kind>
void rest(const Layer& layer, int64_t i, int64_t column, double* dots) {
  using Stored = typename Kind::Stored;
  const int64_t d = layer.size;
  const Stored* x = static_cast<const Stored*>(layer.x);
  for (; column < d; ++column) {
    const bool reads_own = layer.own || layer.gathered || layer.row_dots;
    const float own_x = reads_own ? Kind::load_one(x + i * d + column) : 0.0f;
    if (layer.row_dots)
      layer.row_dots[i] = (column ? layer.row_dots[i] : 0.0f) +
                          own_x * Kind::load_one(static_cast<const Stored*>(layer.other) + i * d + column);
    float total = layer.own ? layer.own[i] * own_x : 0.0f;
    if (layer.f) total += layer.base[i] * Kind::load_one(static_cast<const Stored*>(layer.f) + i * d + column);
    if (layer.gathered) {
      float* gathered = layer.gathered + i * d + column;
      const float sum = layer.base[i] * own_x + (layer.gathering == kStore ? 0.0f : *gathered);
      if (layer.gathering == kJoin)
        total += sum;
      else
        *gathered = sum;
    }
    for (int64_t r = 0; r < layer.rank; ++r)
      total += layer.left[i * layer.rank + r] * layer.right[r * d + column];
    for (int64_t k = 0; k < layer.num_matrices; ++k) {
      const Matrix& m = layer.matrices[k];
      float sum = 0;
      for (int32_t e = m.indptr[i]; e < m.indptr[i + 1]; ++e)
        sum += m.values[e] * Kind::load_one(x + int64_t(m.columns[e]) * d + column);
      if (layer.other)
        dots[k] += sum * Kind::load_one(static_cast<const Stored*>(layer.other) + i * d + column);
      if (layer.part && k + 1 == layer.num_matrices)
        Kind::store_one(static_cast<Stored*>(layer.part) + i * d + column, sum);
      total += m.factor * sum;
    }
    Kind::store_one(static_cast<Stored*>(layer.out) + i * d + column, total);
  }
}

// sums (rank, d) += leftᵀ x over a range of rows. Short sums in float32, long ones in float64.
template <class Kind>
void project(const typename Kind::Stored* x, const float* left, int64_t rank, int64_t d, int64_t begin, int64_t end,
             double* sums);

template <class Kind>
void rows(const Layer& layer, int64_t begin, int64_t end, double* dots) {
  constexpr int64_t kTogether = 64;  // rows that the cache still holds when they are summed
  const int64_t d = layer.size;
  for (int64_t i = begin; i < end; ++i) {
    if (layer.next_left && i > begin && (i - begin) % kTogether == 0)
      project<Kind>(static_cast<const typename Kind::Stored*>(layer.out), layer.next_left, layer.next_rank, d,
                    i - kTogether, i, dots + layer.num_matrices);
    int64_t column = 0;
    for (; column + 128 <= d; column += 128) block<Kind, 128>(layer, i, column, dots);
    if (column + 64 <= d) block<Kind, 64>(layer, i, column, dots), column += 64;
    if (column + 32 <= d) block<Kind, 32>(layer, i, column, dots), column += 32;
    if (column + 16 <= d) block<Kind, 16>(layer, i, column, dots), column += 16;
    if (column < d) rest<Kind>(layer, i, column, dots);
  }
  if (layer.next_left && end > begin)
    project<Kind>(static_cast<const typename Kind::Stored*>(layer.out), layer.next_left, layer.next_rank, d,
                  end - 1 - (end - 1 - begin) % kTogether, end, dots + layer.num_matrices);
}

template <class Kind>
void project(const typename Kind::Stored* x, const float* left, int64_t rank, int64_t d, int64_t begin, int64_t end,
             double* sums) {
  constexpr int64_t kRows = 256, kColumns = 128;
  float partial[kColumns];
  for (int64_t first = begin; first < end; first += kRows) {
    const int64_t last = first + kRows < end ? first + kRows : end;
    for (int64_t column = 0; column < d; column += kColumns) {
      const int64_t width = column + kColumns < d ? kColumns : d - column;
      for (int64_t r = 0; r < rank; ++r) {
        for (int64_t c = 0; c < width; ++c) partial[c] = 0;
        for (int64_t i = first; i < last; ++i) {
          const float weight = left[i * rank + r];
          const typename Kind::Stored* row = x + i * d + column;
          int64_t c = 0;
          for (; c + kLanes <= width; c += kLanes)
            Float32::store(partial + c, Float32::load(partial + c) + weight * Kind::load(row + c));
          for (; c < width; ++c) partial[c] += weight * Kind::load_one(row + c);
        }
        for (int64_t c = 0; c < width; ++c) sums[r * d + column + c] += partial[c];
      }
    }
  }
}

}  // namespace

namespace {

float compressed(float count) { return std::copysign(std::log1p(std::fabs(count)), count); }

// <a, b>, <c, d> + <e, f> and so on, of blocks of `size` floats: what two sketches share.
void share(const float* a, const float* b, int64_t size, float* out) {
  const float *near_a = a, *scarce_a = a + size, *far_a = a + 2 * size;
  const float *near_b = b, *scarce_b = b + size, *far_b = b + 2 * size;
  Lanes near = {}, scarce = {}, three = {}, four = {};
  int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    const Lanes na = Float32::load(near_a + k), nb = Float32::load(near_b + k);
    const Lanes fa = Float32::load(far_a + k), fb = Float32::load(far_b + k);
    near += na * nb;
    scarce += Float32::load(scarce_a + k) * Float32::load(scarce_b + k);
    three += na * fb + fa * nb;
    four += fa * fb;
  }
  float counts[4] = {sum_of(near), sum_of(scarce), sum_of(three), sum_of(four)};
  for (; k < size; ++k) {
    counts[0] += near_a[k] * near_b[k];
    counts[1] += scarce_a[k] * scarce_b[k];
    counts[2] += near_a[k] * far_b[k] + far_a[k] * near_b[k];
    counts[3] += far_a[k] * far_b[k];
  }
  for (int c = 0; c < 4; ++c) out[c] = compressed(counts[c]);
  out[4] = a[3 * size] + b[3 * size];
  out[5] = a[3 * size] * b[3 * size];
}

}  // namespace

extern "C" {

// (pairs, 6) estimates of the pairs [begin, end): rows hold three blocks of `size` floats and the degree.
void estimate_pairs(const float* rows, int64_t stride, int64_t size, const int64_t* pairs, int64_t begin, int64_t end,
                    float* out) {
  for (int64_t p = begin; p < end; ++p)
    share(rows + pairs[2 * p] * stride, rows + pairs[2 * p + 1] * stride, size, out + 6 * p);
}

// (pairs, size) y_i ⊙ y_j of the pairs [begin, end); rows of y stand `stride` floats apart.
void multiply_pairs(const float* y, int64_t stride, int64_t size, const int64_t* pairs, int64_t begin, int64_t end,
                    float* out) {
  for (int64_t p = begin; p < end; ++p) {
    const float *a = y + pairs[2 * p] * stride, *b = y + pairs[2 * p + 1] * stride;
    float* product = out + p * size;
    for (int64_t k = 0; k < size; ++k) product[k] = a[k] * b[k];
  }
}

// The gradient of these products for the nodes [begin, end): Σ_p slope_p ⊙ y_j over the pairs p = (i, j) of node i, which
// are given as compressed rows. Rows of `out` stand as far apart as those of y; their other columns become 0.
void pair_gradients(const float* y, int64_t stride, int64_t size, const float* slopes, const int32_t* indptr,
                    const int32_t* columns, const int32_t* pair_of_slot, int64_t begin, int64_t end, float* out) {
  for (int64_t i = begin; i < end; ++i) {
    float* sum = out + i * stride;
    for (int64_t k = 0; k < stride; ++k) sum[k] = 0;
    for (int32_t e = indptr[i]; e < indptr[i + 1]; ++e) {
      const float *slope = slopes + int64_t(pair_of_slot[e]) * size, *other = y + int64_t(columns[e]) * stride;
      for (int64_t k = 0; k < size; ++k) sum[k] += slope[k] * other[k];
    }
  }
}

// (candidates, 4) exact counts between the sources [begin, end) and their candidates, over compressed rows: common
// neighbours, the same over the logarithm of their degree (Adamic-Adar) and over the degree (resource allocation), and
// paths of length three, each over the roots of the degrees of its two inner nodes. Candidates of source s stand at
// starts[s] up to starts[s + 1]. Inner nodes of paths with more than `most` neighbours are left out. An edge between a
// source and a candidate adds no path. Returns 1 if there is no memory for it.
int64_t count_shared(const int64_t* indptr, const int64_t* columns, int64_t num_nodes, int64_t most,
                     const int64_t* sources, const int64_t* starts, const int64_t* candidates, int64_t begin,
                     int64_t end, float* out) {
  // zero at first, and after every source; only what is touched takes memory
  auto* reached = static_cast<float*>(std::calloc(size_t(num_nodes) + 1, sizeof(float)));
  auto* near = static_cast<uint8_t*>(std::calloc(size_t(num_nodes) + 1, 1));
  if (!reached || !near) {
    std::free(reached);
    std::free(near);
    return 1;
  }
  const auto degree = [&](int64_t node) { return float(indptr[node + 1] - indptr[node]); };
  const auto passes = [&](int64_t node) { return indptr[node + 1] - indptr[node] <= most; };
  for (int64_t s = begin; s < end; ++s) {
    const int64_t source = sources[s], first = indptr[source], last = indptr[source + 1];
    for (int64_t e = first; e < last; ++e) {
      const int64_t u = columns[e];
      near[u] = 1;
      if (!passes(u)) continue;
      const float weight = 1 / std::sqrt(degree(u));
      for (int64_t f = indptr[u]; f < indptr[u + 1]; ++f) reached[columns[f]] += weight;
    }
    for (int64_t c = starts[s]; c < starts[s + 1]; ++c) {
      const int64_t other = candidates[c];
      const float own = near[other] && passes(other) ? 1 / std::sqrt(degree(other)) : 0;
      float common = 0, adamic = 0, scarce = 0, paths = 0;
      for (int64_t e = indptr[other]; e < indptr[other + 1]; ++e) {
        const int64_t v = columns[e];
        const float d = degree(v);
        if (near[v]) {
          common += 1;
          adamic += d > 1 ? 1 / std::log(d) : 0;
          scarce += 1 / d;
        }
        if (v != source && passes(v)) paths += (reached[v] - own) / std::sqrt(d);
      }
      out[4 * c] = common;
      out[4 * c + 1] = adamic;
      out[4 * c + 2] = scarce;
      out[4 * c + 3] = paths;
    }
    for (int64_t e = first; e < last; ++e) {
      const int64_t u = columns[e];
      near[u] = 0;
      if (!passes(u)) continue;
      for (int64_t f = indptr[u]; f < indptr[u + 1]; ++f) reached[columns[f]] = 0;
    }
  }
  std::free(reached);
  std::free(near);
  return 0;
}

void project_float32(const float* x, const float* left, int64_t rank, int64_t d, int64_t begin, int64_t end,
                     double* sums) {
  project<Float32>(x, left, rank, d, begin, end, sums);
}

void project_bfloat16(const uint16_t* x, const float* left, int64_t rank, int64_t d, int64_t begin, int64_t end,
                      double* sums) {
  project<BFloat16>(x, left, rank, d, begin, end, sums);
}

void layer_float32(const Layer* layer, int64_t begin, int64_t end, double* dots) {
  rows<Float32>(*layer, begin, end, dots);
}

void layer_bfloat16(const Layer* layer, int64_t begin, int64_t end, double* dots) {
  rows<BFloat16>(*layer, begin, end, dots);
}

// How often each node is an end of the pairs [begin, end).
void count_ends(const int64_t* pairs, int64_t begin, int64_t end, int64_t num_nodes, int32_t* counts) {
  std::memset(counts, 0, size_t(num_nodes) * sizeof(int32_t));
  for (int64_t e = 2 * begin; e < 2 * end; ++e) ++counts[pairs[e]];
}

// From (parts, n) counts of consecutive ranges of pairs to where each range goes on writing in each row, and to where
// each row begins.
void begin_rows(int32_t* counts, int64_t parts, int64_t num_nodes, int32_t* indptr) {
  int32_t next = 0;
  for (int64_t i = 0; i < num_nodes; ++i) {
    indptr[i] = next;
    for (int64_t part = 0; part < parts; ++part) {
      const int32_t count = counts[part * num_nodes + i];
      counts[part * num_nodes + i] = next;
      next += count;
    }
  }
  indptr[num_nodes] = next;
}

// The other end of each pair of a range, and its number if asked for; `next` is where the range goes on in each row.
void place_ends(const int64_t* pairs, int64_t begin, int64_t end, int32_t* next, int32_t* columns,
                int32_t* pair_of_slot) {
  for (int64_t e = begin; e < end; ++e) {
    const int64_t a = pairs[2 * e], b = pairs[2 * e + 1];
    const int32_t first = next[a]++, second = next[b]++;
    columns[first] = int32_t(b);
    columns[second] = int32_t(a);
    if (pair_of_slot) pair_of_slot[first] = pair_of_slot[second] = int32_t(e);
  }
}

// Sums of the weights of each node's pairs, all one if there are none; hidden pairs count nothing.
void sum_weights(const int32_t* indptr, const int32_t* pair_of_slot, const float* weights, const uint8_t* hidden,
                 int64_t begin, int64_t end, float* sums) {
  for (int64_t i = begin; i < end; ++i) {
    const int32_t last = indptr[i + 1];
    if (weights) {
      double sum = 0;
      for (int32_t e = indptr[i]; e < last; ++e)
        sum += hidden && hidden[pair_of_slot[e]] ? 0.0f : weights[pair_of_slot[e]];
      sums[i] = float(sum);
    } else {
      int32_t out_of_sight = 0;
      if (hidden)
        for (int32_t e = indptr[i]; e < last; ++e) out_of_sight += hidden[pair_of_slot[e]];
      sums[i] = float(last - indptr[i] - out_of_sight);
    }
  }
}

// scale_i w_ij scale_j, the weights all one if there are none; 0 for hidden pairs.
void scale_values(const int32_t* indptr, const int32_t* columns, const int32_t* pair_of_slot, const float* weights,
                  const uint8_t* hidden, const float* scale, int64_t begin, int64_t end, float* values) {
  for (int64_t i = begin; i < end; ++i) {
    const float own = scale[i];
    const int32_t first = indptr[i], last = indptr[i + 1];
    if (hidden)  // a product, not a choice: which pairs are hidden cannot be foreseen
      for (int32_t e = first; e < last; ++e)
        values[e] = own * scale[columns[e]] * float(1 - int(hidden[pair_of_slot[e]]));
    else
      for (int32_t e = first; e < last; ++e) values[e] = own * scale[columns[e]];
    if (weights)
      for (int32_t e = first; e < last; ++e) values[e] *= weights[pair_of_slot[e]];
  }
}

// x where its byte of chance reaches the threshold, times the scale, else 0.
void drop(const float* x, const uint8_t* chances, uint8_t threshold, float scale, int64_t begin, int64_t end,
          float* out) {
  for (int64_t i = begin; i < end; ++i) out[i] = x[i] * (chances[i] >= threshold ? scale : 0.0f);
}

// A set of pairs as two bits each of one line of 64 bytes: a pair whose bits are not both set is not in the set, one
// whose bits are may be. Pairs between the same two blocks of nodes share a line, which drawing by blocks finds cached.
struct Place {
  uint64_t line;
  uint32_t first, second;  // bits of the line
};

static inline Place place_of(uint64_t a, uint64_t b, uint64_t num_nodes, int block_shift, int line_shift) {
  const uint64_t blocks = (num_nodes >> block_shift) + 1;
  const uint64_t block = (a >> block_shift) * blocks + (b >> block_shift);
  const uint64_t mixed = (a * num_nodes + b) * 0xBF58476D1CE4E5B9ull;
  return {(block * 0x9E3779B97F4A7C15ull) >> line_shift, uint32_t(mixed >> 55), uint32_t(mixed >> 46) & 511u};
}

void mark_pairs(const int64_t* keys, int64_t m, int64_t num_nodes, int block_shift, int line_shift, uint8_t* bits) {
  for (int64_t e = 0; e < m; ++e) {
    const Place at = place_of(uint64_t(keys[e] / num_nodes), uint64_t(keys[e] % num_nodes), uint64_t(num_nodes),
                              block_shift, line_shift);
    uint8_t* line = bits + 64 * at.line;
    line[at.first >> 3] |= uint8_t(1u << (at.first & 7));
    line[at.second >> 3] |= uint8_t(1u << (at.second & 7));
  }
}

// Places of those of the pairs [begin, end) that are self pairs or may be in the set; returns how many they are.
int64_t suspect_pairs(const int64_t* pairs, int64_t num_nodes, int directed, int block_shift, int line_shift,
                      const uint8_t* bits, int64_t begin, int64_t end, int64_t* suspects) {
  constexpr int64_t kBlock = 64;
  Place places[kBlock];
  int64_t found = 0;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = first + kBlock < end ? kBlock : end - first;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t a = pairs[2 * (first + i)], b = pairs[2 * (first + i) + 1];
      const int64_t lower = a < b ? a : b, upper = a < b ? b : a;
      places[i] = place_of(uint64_t(directed ? a : lower), uint64_t(directed ? b : upper), uint64_t(num_nodes),
                           block_shift, line_shift);
      __builtin_prefetch(bits + 64 * places[i].line + (places[i].first >> 3));
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t* line = bits + 64 * places[i].line;
      const Place& at = places[i];
      suspects[found] = first + i;
      found += ((line[at.first >> 3] >> (at.first & 7)) & (line[at.second >> 3] >> (at.second & 7)) & 1) |
               (pairs[2 * (first + i)] == pairs[2 * (first + i) + 1]);
    }
  }
  return found;
}

// The nodes outwards from each of `seeds` (n,) that was not yet reached, ring by ring. `reached` (n,) is all zero.
void breadth_first(const int32_t* indptr, const int32_t* columns, const int64_t* seeds, int64_t num_nodes,
                   uint8_t* reached, int64_t* order) {
  int64_t told = 0, heard = 0;  // of the order: neighbours looked at, and nodes in it
  for (int64_t at = 0; at < num_nodes; ++at) {
    if (reached[seeds[at]]) continue;
    reached[seeds[at]] = 1;
    order[heard++] = seeds[at];
    for (; told < heard; ++told)
      for (int32_t e = indptr[order[told]]; e < indptr[order[told] + 1]; ++e)
        if (!reached[columns[e]]) {
          reached[columns[e]] = 1;
          order[heard++] = columns[e];
        }
  }
}

// Each node in turn takes the label that most of its neighbours have, if fewer than `largest` nodes have it; a tie
// changes nothing, and among several the first met wins. `counts` (n,) is all zero before and after, `met` has room for
// the neighbours of a node. Returns how many labels changed.
int64_t spread_labels(const int32_t* indptr, const int32_t* columns, int64_t num_nodes, int32_t largest,
                      int32_t* labels, int32_t* sizes, int32_t* counts, int32_t* met) {
  int64_t changed = 0;
  for (int64_t i = 0; i < num_nodes; ++i) {
    const int32_t own = labels[i];
    int32_t different = 0;
    for (int32_t e = indptr[i]; e < indptr[i + 1]; ++e) {
      const int32_t label = labels[columns[e]];
      if (counts[label]++ == 0) met[different++] = label;
    }
    int32_t best = own;
    for (int32_t at = 0; at < different; ++at)
      if (counts[met[at]] > counts[best] && sizes[met[at]] < largest) best = met[at];
    for (int32_t at = 0; at < different; ++at) counts[met[at]] = 0;
    if (best != own) {
      --sizes[own];
      ++sizes[best];
      labels[i] = best;
      ++changed;
    }
  }
  return changed;
}

// Number e of the draws from a seed (splitmix64).
static inline uint64_t mixed(uint64_t seed, int64_t e) {
  uint64_t z = seed + uint64_t(e + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Nodes drawn uniformly: number e of a draw is a function of the seed and e alone, so that any thread
// can make any part of it. yinyan.randomness.uniform_nodes draws the same with torch.
void draw_nodes(uint64_t seed, int64_t num_nodes, int64_t begin, int64_t end, int64_t* nodes) {
  for (int64_t e = begin; e < end; ++e) {
    nodes[e] = int64_t(((mixed(seed, e) >> 33) * uint64_t(num_nodes)) >> 31);
  }
}

// Pairs between blocks of nodes, counted from node `turn` on: number e begins in the block that its place among all
// `count` falls to (or that of `places`), and ends in one of the partners (num_choices, num_blocks) of that block.
// yinyan.sampling.blocks draws the same with torch.
void draw_block_pairs(uint64_t seed, int64_t turn, const int64_t* starts, const int64_t* partners, int64_t num_choices,
                      int64_t num_blocks, int64_t count, const int64_t* places, int64_t begin, int64_t end,
                      int64_t* pairs) {
  const int64_t num_nodes = starts[num_blocks];
  const auto node = [=](int64_t block, uint64_t chance) {
    const int64_t size = starts[block + 1] - starts[block];
    const int64_t turned = starts[block] + int64_t((chance * uint64_t(size)) >> 24) + turn;
    return turned < num_nodes ? turned : turned - num_nodes;
  };
  int64_t block = 0, next = 0;  // the block of a place, and the first place of the block after it
  for (int64_t e = begin; e < end; ++e) {
    const uint64_t z = mixed(seed, e);
    if (places || e >= next || e == begin) {
      block = (places ? places[e] : e) * num_blocks / count;
      next = ((block + 1) * count + num_blocks - 1) / num_blocks;
    }
    const int64_t choice = int64_t(((z >> 48) * uint64_t(num_choices)) >> 16);
    pairs[2 * e] = node(block, (z >> 24) & 0xFFFFFFu);
    pairs[2 * e + 1] = node(partners[choice * num_blocks + block], z & 0xFFFFFFu);
  }
}
}
