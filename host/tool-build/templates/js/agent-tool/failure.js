/**
 * What a failed call returns: throw it. `code` is a word of the contract (`invalid-arguments`, `not-found`, `denied`,
 * `unavailable`) or your own; the message tells the model what is wrong and what would do instead.
 */
export class Failure extends Error {
  constructor(code, message, meta = {}) {
    super(message);
    this.name = 'Failure';
    this.code = String(code); // anything else would crash the bindings
    this.meta = Object.entries(meta).filter(([, value]) => value !== undefined).map(([key, value]) => [key, String(value)]);
  }

  static invalidArguments(message) {
    return new Failure('invalid-arguments', message);
  }

  static notFound(message) {
    return new Failure('not-found', message);
  }

  static denied(message) {
    return new Failure('denied', message);
  }

  /** The same call may work later; `retryAfterMs` says when. */
  static unavailable(message, retryAfterMs) {
    // The host reads whole numbers.
    return new Failure('unavailable', message, { 'retry-after-ms': retryAfterMs && Math.ceil(retryAfterMs) });
  }
}
