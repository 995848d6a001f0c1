/** What the service answers, version 1, and what a report holds. */

import type { Id } from "./ids";

export interface NodeInfo {
  id: Id;
  label?: string | null;
  degree: number;
  relation?: string; // of the edge to a neighbour, in a graph with relations
}

export interface Neighbourhood {
  nodes: (NodeInfo & { hop: number })[];
  links: [Id, Id][];
  relations?: string[]; // of the links
  version: number;
}

export interface NodeDetail extends NodeInfo {
  attributes?: Record<string, unknown> | null;
  neighbours: NodeInfo[];
  version: number;
}

export interface Recommendation {
  target: Id;
  label?: string | null;
  score: number;
  probability: number | null;
  rank: number;
}

export interface Recommended extends BaseRate {
  recommendations: Recommendation[];
}

export interface Scored {
  source: Id;
  source_label?: string | null;
  target: Id;
  target_label?: string | null;
  score: number;
  probability: number | null;
  is_link: boolean;
}

export interface Contribution {
  end: Id;
  neighbour: Id | null; // null: all nodes together
  kind: string; // "attracts" or "repels"
  amount: number;
  label?: string | null; // of the neighbour
  relation?: string | null; // of the edge
}

export interface Explanation extends Scored {
  score_alone: number;
  base_rate: number | null;
  contributions: Contribution[];
  residue: number;
  shared: number;
}

export interface PointMap {
  ids: Id[];
  labels?: (string | null)[];
  types?: string[] | null;
  x: number[];
  y: number[];
  edges?: [number, number][]; // of the graph, as positions in the lists above
  predicted?: [number, number][]; // recommended links, best first
  version?: number; // of the live graph
}

export interface Epoch {
  epoch: number;
  loss: number | null;
  learning_rate?: number | null;
  hits?: number | null;
  mrr?: number | null;
  auc?: number | null;
  repulsion?: number | null;
}

export interface ReliabilityBin {
  predicted: number;
  observed: number;
  low: number; // 95 % interval of the observed share
  high: number;
  count: number;
}

export interface Histogram {
  edges: number[]; // one more than shares
  positives: number[];
  negatives: number[];
}

export interface AreaCurve {
  x: number[];
  y: number[];
  area: number;
}

export interface HeldOut {
  pairs: string; // "validation" or "test"
  num_positives: number;
  num_negatives: number;
}

/** The base rate that probabilities hold for: missing edges as a share of all new pairs, and of the known edges. */
export interface BaseRate {
  base_rate: number;
  missing_share: number;
}

export interface DegreeGroup extends ReliabilityBin {
  least: number; // edges of the sources
  most: number;
}

/** The recommended lists of held-out edges that the calibration is measured on. */
export interface Lists {
  edges: string; // "validation" or "test"
  length: number;
  num_sources: number;
  num_hits: number;
  error: number;
  by_degree: DegreeGroup[];
}

export type Metrics = Record<string, number | null>;

export interface TypeFacts {
  name: string;
  num_nodes: number;
  num_features: number;
}

export interface RelationFacts {
  name: string;
  source: string;
  target: string;
  num_links: number;
  directed: boolean;
  predicted: boolean;
  attraction: number;
  metrics: Metrics;
}

/** What a search for settings found; scores and gains are of its metric on validation edges. */
export interface Tuning {
  kind: string; // of graph
  verdict: string;
  metric: string;
  minutes: number;
  seconds: number;
  search_seed: number;
  seeds: number[];
  default_score: number;
  trials: { number: number; state: string; score: number | null; epochs: number; seconds: number }[];
  candidates: { values: Record<string, unknown>; gain: number; spread: number; better: boolean }[];
  importances: Record<string, number>;
}

/** What the model page shows. The service sends its state beside it; a report, links and their map. */
export interface ModelInfo {
  name: string;
  relation?: string | null; // whose figures and charts these are
  types?: TypeFacts[] | null;
  relations?: RelationFacts[] | null;
  overall?: Metrics | null; // over all predicted relations
  model: {
    num_nodes: number;
    num_links: number;
    directed: boolean;
    bipartite: boolean;
    dimensions: number;
    num_features: number;
  };
  metrics: Metrics;
  protocol: string;
  split: string;
  seed: number;
  seconds: number;
  notes: string[];
  settings: Record<string, Record<string, unknown>>;
  training: Epoch[];
  best_epoch: number;
  energy: (number | null)[];
  held_out: HeldOut | null;
  histogram: Histogram | null;
  roc: AreaCurve | null;
  precision_recall: AreaCurve | null;
  probabilities: BaseRate;
  lists: Lists | null;
  reliability: ReliabilityBin[];
  versions: Record<string, string>;
  index?: Record<string, unknown>;
  live?: Record<string, unknown>;
  read_only?: boolean;
  peers?: Record<string, Metrics>;
  overall_peers?: Record<string, Metrics>;
  num_seeds?: number; // whose means the metrics are
  recommended?: { num_asked: number; of?: number; links: (Omit<Scored, "is_link"> & EndTypes)[] };
  map?: PointMap;
  by_relation?: Record<string, Partial<ModelInfo> & { predicted: [number, number][] }>; // of a report
  tuning?: Tuning;
}

/** Types of the ends of a link, in a graph with relations. */
export interface EndTypes {
  source_type?: string | null;
  target_type?: string | null;
}

/** The name of a node for people: its label, or else its id. */
export function nameOf(node: { id: Id; label?: string | null }): string {
  return node.label === undefined || node.label === null || node.label === "" ? String(node.id) : node.label;
}
