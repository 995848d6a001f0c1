/** What the service answers, version 1. */

import type { Id } from "./ids";

export interface NodeInfo {
  id: Id;
  label?: string | null;
  degree: number;
}

export interface Neighbourhood {
  nodes: (NodeInfo & { hop: number })[];
  links: [Id, Id][];
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

export interface Scored {
  source: Id;
  target: Id;
  score: number;
  probability: number | null;
  is_link: boolean;
}

export interface Contribution {
  end: Id;
  neighbour: Id | null; // null: all nodes together
  kind: string; // "attracts" or "repels"
  amount: number;
}

export interface Explanation extends Scored {
  score_alone: number;
  base_rate: number | null;
  contributions: Contribution[];
  residue: number;
}

export interface PointMap {
  ids: Id[];
  labels: (string | null)[];
  x: number[];
  y: number[];
  version: number;
}

export interface Epoch {
  epoch: number;
  loss: number | null;
  learning_rate?: number | null;
  hits?: number | null;
  mrr?: number | null;
  auc?: number | null;
}

export interface ReliabilityBin {
  predicted: number;
  observed: number;
  count: number;
}

export interface ModelInfo {
  name: string;
  model: { num_nodes: number; num_links: number; directed: boolean; bipartite: boolean; dimensions: number };
  metrics?: Record<string, unknown> | null;
  protocol?: string | null;
  split?: unknown;
  settings?: Record<string, unknown> | null;
  training?: Epoch[] | null;
  best_epoch?: number | null;
  energy?: (number | null)[] | null;
  reliability?: ReliabilityBin[] | null;
  versions?: Record<string, string> | null;
  index?: Record<string, unknown> | null;
  live?: Record<string, unknown> | null;
  read_only: boolean;
  why_read_only?: string | null;
}

/** The name of a node for people: its label, or else its id. */
export function nameOf(node: { id: Id; label?: string | null }): string {
  return node.label === undefined || node.label === null || node.label === "" ? String(node.id) : node.label;
}
