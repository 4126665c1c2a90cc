// The model server's answers name a tool of an MCP server as `mcp__server__tool`. The Responses API has a namespace for that, which
// codex 0.169 asks for; what is answered on that path is rewritten.
const { ServerResponse } = require("node:http");

const named = /"name":"(mcp__[a-z]+)__/g;
for (const method of ["write", "end"]) {
  const original = ServerResponse.prototype[method];
  ServerResponse.prototype[method] = function (chunk, ...rest) {
    const rewrites = typeof chunk === "string" && this.req.url.includes("/responses");
    return original.call(this, rewrites ? chunk.replace(named, '"namespace":"$1","name":"') : chunk, ...rest);
  };
}
