// What a request has to pass before it is worked on: the IP window, the token, the user's window, the schema
// of its body. Their order is the routes' affair.
import { rateLimit } from "express-rate-limit";
import jwt from "jsonwebtoken";
import { z } from "zod";

export const ipLimiter = ({ IP_LIMIT }) =>
  rateLimit({
    windowMs: 15 * 60 * 1000,
    limit: IP_LIMIT,
    message: "Too many requests from this IP",
    standardHeaders: true,
    legacyHeaders: false,
  });

// No header options: the library's own hold (host/docs/interface/node-clients.md#rate-limit-headers).
export const userLimiter = ({ USER_LIMIT, PREMIUM_LIMIT }) =>
  rateLimit({
    windowMs: 60 * 1000,
    limit: (request) => (request.user.tier === "premium" ? PREMIUM_LIMIT : USER_LIMIT),
    keyGenerator: (request) => request.user.id,
  });

export const authenticate = ({ JWT_SECRET }) => (request, response, next) => {
  const header = request.headers.authorization;
  const token = header && header.split(" ")[1];
  if (!token) return response.status(401).end();
  jwt.verify(token, JWT_SECRET, (error, payload) => {
    if (error) return response.status(403).end();
    request.user = payload;
    next();
  });
};

const agentRequest = z.object({
  query: z.string().min(1).max(1000),
  options: z
    .object({
      maxTokens: z.number().min(100).max(10_000).optional(),
      temperature: z.number().min(0).max(2).optional(),
    })
    .optional(),
});

export function validate(request, response, next) {
  const parsed = agentRequest.safeParse(request.body);
  if (!parsed.success) return response.status(400).json({ error: parsed.error.errors });
  request.body = parsed.data;
  next();
}
