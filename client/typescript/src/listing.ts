/** Rows of a list; further pages are fetched while you iterate. */
export class Listing<Row, Page> implements AsyncIterable<Row> {
  constructor(
    private readonly fetchPage: (cursor: string | undefined) => Promise<Page>,
    private readonly getRows: (page: Page) => readonly Row[],
    private readonly getNextCursor: (page: Page) => string | null,
    private readonly firstCursor?: string,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Row, void, undefined> {
    for await (const page of this.pages()) yield* this.getRows(page);
  }

  /** Yield whole pages, with their totals and cursors. */
  async *pages(): AsyncGenerator<Page, void, undefined> {
    let cursor = this.firstCursor;
    for (;;) {
      const page = await this.fetchPage(cursor);
      yield page;
      const next = this.getNextCursor(page);
      if (next === null || next === cursor) return;
      cursor = next;
    }
  }
}
