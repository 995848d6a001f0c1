// Parts of a graph with few links between them: nodes are merged level by level into clusters of neighbours, the last
// level is divided, and the parts are improved on the way back (multilevel partitioning, as in METIS and KaHIP).
//
// One thread, and every order is that of the rows, so that the answer depends on the graph alone.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "abi.h"

namespace {

using Costs = std::vector<double>;
using Labels = std::vector<int32_t>;

struct Level {  // a graph whose nodes have costs and whose links have weights; the first level borrows its rows
  int64_t size = 0;
  const int32_t* indptr = nullptr;
  const int32_t* columns = nullptr;
  const float* weights = nullptr;  // none where all are one
  Costs cost;
  std::vector<int32_t> own_indptr, own_columns;
  std::vector<float> own_weights;

  double weight(int32_t e) const { return weights ? weights[e] : 1.0; }
};

constexpr int kVotes = 5;             // rounds of votes per level
constexpr double kClusters = 20;      // per part at least: no cluster costs more than its share
constexpr double kGrowth = 24;        // nodes' mean costs that a cluster of one level may have
constexpr int64_t kSmallest = 60;     // nodes per part of the last level
constexpr int64_t kSearched = 200000; // nodes up to which parts are improved by moves that may first cost something
constexpr int kStarts = 8;            // divisions of the last level that are tried
constexpr int kRounds = 8;            // rounds of improvement per level

// Nodes take the label that most of their links lead to, unless its cluster would cost more than `most`.
Labels voted(const Level& g, double most) {
  Labels labels(g.size), met;
  std::iota(labels.begin(), labels.end(), 0);
  Costs total = g.cost, links(g.size, 0.0);
  for (int round = 0; round < kVotes; ++round) {
    int64_t changed = 0;
    for (int64_t i = 0; i < g.size; ++i) {
      met.clear();
      for (int32_t e = g.indptr[i]; e < g.indptr[i + 1]; ++e) {
        const int32_t label = labels[g.columns[e]];
        if (links[label] == 0) met.push_back(label);
        links[label] += g.weight(e);
      }
      const int32_t own = labels[i];
      int32_t best = own;
      for (const int32_t label : met)
        if (links[label] > links[best] && total[label] + g.cost[i] <= most) best = label;
      for (const int32_t label : met) links[label] = 0;
      if (best == own) continue;
      total[own] -= g.cost[i];
      total[best] += g.cost[i];
      labels[i] = best;
      ++changed;
    }
    if (changed <= g.size / 100) break;
  }
  return labels;
}

// Clusters as nodes: their costs and the weights of links between them are summed. Labels become numbers of nodes.
Level merged(const Level& g, Labels& labels) {
  Labels number(g.size, -1);
  Level out;
  for (int64_t i = 0; i < g.size; ++i) {
    int32_t& found = number[labels[i]];
    if (found < 0) found = int32_t(out.size++);
    labels[i] = found;
  }
  out.cost.assign(out.size, 0.0);
  std::vector<int32_t> begin(out.size + 1, 0), members(g.size);
  for (int64_t i = 0; i < g.size; ++i) out.cost[labels[i]] += g.cost[i], ++begin[labels[i] + 1];
  for (int64_t c = 0; c < out.size; ++c) begin[c + 1] += begin[c];
  std::vector<int32_t> next(begin.begin(), begin.end() - 1);
  for (int64_t i = 0; i < g.size; ++i) members[next[labels[i]]++] = int32_t(i);
  Costs links(out.size, 0.0);
  Labels met;
  out.own_indptr.assign(1, 0);
  out.own_indptr.reserve(out.size + 1);
  for (int64_t c = 0; c < out.size; ++c) {
    met.clear();
    for (int32_t at = begin[c]; at < begin[c + 1]; ++at) {
      const int32_t i = members[at];
      for (int32_t e = g.indptr[i]; e < g.indptr[i + 1]; ++e) {
        const int32_t label = labels[g.columns[e]];
        if (label == c) continue;
        if (links[label] == 0) met.push_back(label);
        links[label] += g.weight(e);
      }
    }
    for (const int32_t label : met) {
      out.own_columns.push_back(label);
      out.own_weights.push_back(float(links[label]));
      links[label] = 0;
    }
    out.own_indptr.push_back(int32_t(out.own_columns.size()));
  }
  return out;
}

void point(Level& g) {  // at its own rows, wherever it has been moved to
  if (g.own_indptr.empty()) return;
  g.indptr = g.own_indptr.data();
  g.columns = g.own_columns.data();
  g.weights = g.own_weights.data();
}

struct Division {
  int64_t parts;
  double most;  // cost that a part may have
  Labels owner;
  Costs load;
  std::vector<int64_t> count;

  void take(const Level& g, Labels owners) {
    owner = std::move(owners);
    load.assign(parts, 0.0);
    count.assign(parts, 0);
    for (int64_t i = 0; i < g.size; ++i) load[owner[i]] += g.cost[i], ++count[owner[i]];
  }
  void move(const Level& g, int64_t i, int32_t to) {
    load[owner[i]] -= g.cost[i], --count[owner[i]];
    load[to] += g.cost[i], ++count[to];
    owner[i] = to;
  }
  double excess() const {  // of all parts above what they may cost
    double sum = 0;
    for (const double one : load) sum += std::max(0.0, one - most);
    return sum;
  }
};

double cut(const Level& g, const Labels& owner) {
  double sum = 0;
  for (int64_t i = 0; i < g.size; ++i)
    for (int32_t e = g.indptr[i]; e < g.indptr[i + 1]; ++e)
      if (owner[i] != owner[g.columns[e]]) sum += g.weight(e);
  return sum / 2;
}

// The part that a node would best move to and what that gains; -1 if no other has room.
struct Choice {
  int32_t part;
  double gain;
};

Choice choice(const Level& g, const Division& d, int64_t i, Costs& links) {
  std::fill(links.begin(), links.end(), 0.0);
  for (int32_t e = g.indptr[i]; e < g.indptr[i + 1]; ++e) links[d.owner[g.columns[e]]] += g.weight(e);
  const int32_t own = d.owner[i];
  Choice best{-1, 0};
  if (d.count[own] == 1) return best;  // no part is left empty
  for (int32_t p = 0; p < d.parts; ++p) {
    if (p == own || d.load[p] + g.cost[i] > d.most) continue;
    const bool is_lighter = best.part >= 0 && links[p] == links[best.part] && d.load[p] < d.load[best.part];
    if (best.part < 0 || links[p] > links[best.part] || is_lighter) best.part = p;
  }
  if (best.part >= 0) best.gain = links[best.part] - links[own];
  return best;
}

// Moves that gain something, or that relieve a part that costs too much, node by node.
int64_t improved(const Level& g, Division& d) {
  Costs links(d.parts, 0.0);
  int64_t moves = 0;
  for (int64_t i = 0; i < g.size; ++i) {
    const int32_t own = d.owner[i];
    const bool is_full = d.load[own] > d.most;
    bool is_inside = !is_full;
    for (int32_t e = g.indptr[i]; is_inside && e < g.indptr[i + 1]; ++e) is_inside = d.owner[g.columns[e]] == own;
    if (is_inside) continue;
    const Choice found = choice(g, d, i, links);
    if (found.part < 0) continue;
    const bool evens = found.gain == 0 && d.load[found.part] + g.cost[i] < d.load[own];
    if (found.gain > 0 || evens || is_full) d.move(g, i, found.part), ++moves;
  }
  return moves;
}

// Each node moves at most once, the best move first, also where it costs something; what came after the best state is
// taken back (Fiduccia and Mattheyses). Returns what was gained.
double searched(const Level& g, Division& d) {
  Costs links(d.parts, 0.0);
  using Entry = std::pair<double, int32_t>;
  std::priority_queue<Entry> waiting;
  std::vector<uint8_t> done(g.size, 0);
  for (int64_t i = 0; i < g.size; ++i)
    for (int32_t e = g.indptr[i]; e < g.indptr[i + 1]; ++e)
      if (d.owner[g.columns[e]] != d.owner[i]) {
        const Choice found = choice(g, d, i, links);
        if (found.part >= 0) waiting.push({found.gain, int32_t(i)});
        break;
      }
  std::vector<std::pair<int32_t, int32_t>> log;  // node, and the part that it left
  double total = 0, best = 0;
  size_t kept = 0;
  const size_t patience = size_t(std::max<int64_t>(100, std::min<int64_t>(2000, g.size / 20)));
  while (!waiting.empty() && log.size() < kept + patience) {
    const auto [gain, i] = waiting.top();
    waiting.pop();
    if (done[i]) continue;
    const Choice found = choice(g, d, i, links);
    if (found.part < 0) continue;
    if (found.gain < gain) {  // a neighbour moved meanwhile
      waiting.push({found.gain, i});
      continue;
    }
    done[i] = 1;
    log.push_back({i, d.owner[i]});
    d.move(g, i, found.part);
    total += found.gain;
    if (total > best) best = total, kept = log.size();
    for (int32_t e = g.indptr[i]; e < g.indptr[i + 1]; ++e) {
      const int32_t j = g.columns[e];
      if (done[j]) continue;
      const Choice next = choice(g, d, j, links);
      if (next.part >= 0) waiting.push({next.gain, j});
    }
  }
  for (; log.size() > kept; log.pop_back()) d.move(g, log.back().first, log.back().second);
  return best;
}

void refine(const Level& g, Division& d) {
  for (int round = 0; round < kRounds && improved(g, d) > g.size / 1000; ++round) {
  }
  if (g.size > kSearched) return;
  for (int round = 0; round < kRounds && searched(g, d) > 0; ++round) {
  }
}

// Parts grown one after the other from a node far from what has been given, always by the node with most links to it.
Labels grown(const Level& g, int64_t parts, uint64_t seed) {
  Labels owner(g.size, -1);
  double left = 0;
  for (const double one : g.cost) left += one;
  int64_t free = g.size;
  Costs links(g.size, 0.0);
  for (int32_t p = 0; p < parts; ++p) {
    const double share = left / double(parts - p);
    double load = 0;
    std::fill(links.begin(), links.end(), 0.0);
    std::priority_queue<std::pair<double, int32_t>> waiting;
    while (free > parts - 1 - p && (p == parts - 1 || load < share)) {
      int32_t i = -1;
      while (!waiting.empty() && i < 0) {
        const auto [weight, node] = waiting.top();
        waiting.pop();
        if (owner[node] < 0 && weight == links[node]) i = node;
      }
      if (i < 0) {  // nothing is linked to it: any node that is free
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        i = int32_t((seed >> 33) % uint64_t(g.size));
        while (owner[i] >= 0) i = int32_t((i + 1) % g.size);
      }
      owner[i] = p, load += g.cost[i], --free;
      for (int32_t e = g.indptr[i]; e < g.indptr[i + 1]; ++e) {
        const int32_t j = g.columns[e];
        if (owner[j] >= 0) continue;
        links[j] += g.weight(e);
        waiting.push({links[j], j});
      }
    }
    left -= load;
  }
  return owner;
}

Division divided(const Level& g, int64_t parts, double most) {
  Division best{parts, most, {}, {}, {}};
  double least = 0, excess = 0;
  for (int start = 0; start < kStarts; ++start) {
    Division one{parts, most, {}, {}, {}};
    one.take(g, grown(g, parts, uint64_t(start) + 1));
    refine(g, one);
    const double links = cut(g, one.owner), over = one.excess();
    if (start == 0 || over < excess || (over == excess && links < least))
      best = std::move(one), least = links, excess = over;
  }
  return best;
}

}  // namespace

extern "C" {

// The part of each of n nodes, which has a cost, so that no part costs more than `slack` times its share where that
// can be. Rows are compressed, symmetric and without self links; parts <= n.
void partition(const int32_t* indptr, const int32_t* columns, const double* cost, int64_t n, int64_t parts,
               double slack, int32_t* owner) {
  std::vector<Level> levels(1);
  levels[0].size = n, levels[0].indptr = indptr, levels[0].columns = columns;
  levels[0].cost.assign(cost, cost + n);
  const double total = std::accumulate(cost, cost + n, 0.0), most = slack * total / double(parts);
  std::vector<Labels> into;  // the node of the next level that each node is part of
  while (levels.back().size > kSmallest * parts) {
    const Level& g = levels.back();
    const double largest = std::min(total / (kClusters * double(parts)), kGrowth * total / double(g.size));
    Labels labels = voted(g, largest);
    Level next = merged(g, labels);
    if (next.size > g.size - g.size / 20 || next.size < parts) break;  // hardly anything can be merged, or too much
    into.push_back(std::move(labels));
    levels.push_back(std::move(next));
    for (Level& level : levels) point(level);
  }
  Division division = divided(levels.back(), parts, most);
  for (size_t at = levels.size() - 1; at-- > 0;) {
    Labels finer(levels[at].size);
    for (int64_t i = 0; i < levels[at].size; ++i) finer[i] = division.owner[into[at][i]];
    levels.pop_back();
    division.take(levels[at], std::move(finer));
    refine(levels[at], division);
  }
  std::copy(division.owner.begin(), division.owner.end(), owner);
}

uint64_t structure_layout() { return abi::layout_of({}); }  // it reads arrays alone

}  // extern "C"
