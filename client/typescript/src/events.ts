/** One server-sent event. */
export interface ServerSentEvent {
  event: string;
  id: string;
  data: string;
}

/** The server sends one event on one line; a longer text is not from Florin. */
const LENGTH_MAX = 1_048_576;

/**
 * Parse a stream of server-sent events.
 *
 * `onActivity` is called for every chunk, comments included; `onRetry` with the delay in milliseconds
 * that the server asks for. Throws RangeError if an event is longer than 1 MiB.
 */
export async function* parseEvents(
  body: ReadableStream<Uint8Array>,
  onActivity: () => void,
  onRetry: (ms: number) => void,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = "";
  let fields: ServerSentEvent = { event: "", id: "", data: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onActivity();
      text += decoder.decode(value, { stream: true });
      const lines = text.split(/\r\n|\n|\r(?!$)/);
      // the last line is not complete yet, nor is a CR that may be followed by LF
      text = lines.pop() ?? "";
      if (text.length + fields.data.length > LENGTH_MAX) throw new RangeError("an event is too long");
      for (const line of lines) {
        if (line === "") {
          if (fields.data !== "") yield { ...fields, data: fields.data.replace(/\n$/, "") };
          fields = { event: "", id: fields.id, data: "" };
          continue;
        }
        const [, name = "", content = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
        if (name === "data") fields.data += `${content}\n`;
        else if (name === "event") fields.event = content;
        else if (name === "id") fields.id = content;
        else if (name === "retry" && /^\d{1,9}$/.test(content)) onRetry(Number(content));
      }
    }
  } finally {
    // also ends the connection if the caller stops early
    await reader.cancel().catch(() => undefined);
  }
}
