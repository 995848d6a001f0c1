/** Predicted links accepted or rejected, and taken back in reverse order. */

import { api, Problem, type Pair } from "./api";
import { note } from "./announce";
import { withKey } from "./key_prompt";

export type Verdict = "accept" | "reject";

interface Judgement {
  verdict: Verdict;
  pair: Pair;
  names: string;
}

const DONE = { accept: "is an edge now", reject: "will not be predicted again" };
const DO = { accept: api.addLink, reject: api.reject };
const UNDO = { accept: api.removeLink, reject: api.unreject };

export class Judgements {
  private readonly made: Judgement[] = [];

  constructor(private readonly changed: () => Promise<void>) {}

  /** Whether the service took the judgement; if not, its reason is shown. */
  async judge(verdict: Verdict, pair: Pair, names: string): Promise<boolean> {
    const judgement = { verdict, pair, names };
    if (!(await this.tell(DO[verdict], judgement))) return false;
    this.made.push(judgement);
    await this.changed();
    note(`${names} ${DONE[verdict]}.`, () => void this.undo());
    return true;
  }

  async undo(): Promise<void> {
    const last = this.made.pop();
    if (last === undefined) return note("There is nothing to undo.");
    if (!(await this.tell(UNDO[last.verdict], last))) {
      this.made.push(last);
      return;
    }
    await this.changed();
    const more = this.made.length > 0 ? (): void => void this.undo() : undefined;
    note(last.verdict === "accept" ? `${last.names} is no edge any more.` : `${last.names} may be predicted again.`, more);
  }

  private async tell(change: (pair: Pair) => Promise<unknown>, { pair }: Judgement): Promise<boolean> {
    try {
      await withKey(() => change(pair));
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      note(error.detail);
      return false;
    }
  }
}
