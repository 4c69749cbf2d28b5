// The errors that the global handler knows by name (host/docs/interface/errors-and-limits.md#errors), and
// that handler.

export class RateLimitError extends Error {
  name = "RateLimitError";
}

const named = {
  ValidationError: [400, "Invalid input"],
  UnauthorizedError: [401, "Unauthorized"],
  RateLimitError: [429, "Rate limit exceeded"],
};

/** The error handler of an environment; Express knows it by its four parameters. */
export function errorHandler(environment) {
  return (error, request, response, _next) => {
    const { message, stack, name } = error;
    const { path, method, user } = request;
    console.error(JSON.stringify({ level: "error", message, stack, path, method, userId: user?.id }));
    const text = environment === "production" ? "Internal server error" : message;
    const [status, said] = named[name] ?? [500, text];
    response.status(status).json({ error: said });
  };
}
