// A collector that is no part of this project's own code: OTLP over HTTP and over gRPC, behind TLS. The first line that it
// prints is its port, then each request is one.
"use strict";
const { createSecureServer } = require("node:http2");
const { readFileSync } = require("node:fs");

const [cert, key] = process.argv.slice(2).map((path) => readFileSync(path));
const server = createSecureServer({ cert, key, allowHTTP1: true });
server.on("request", (request, response) => {
  const type = request.headers["content-type"];
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts).toString("latin1");
    console.log(JSON.stringify({ type, path: request.url, token: request.headers["x-token"], body }));
    response.writeHead(200, { "content-type": type });
    if (type === "application/grpc") {
      // One message without fields, and that it went well.
      response.setTrailer("grpc-status", "0");
      response.end(Buffer.alloc(5));
    } else {
      response.end();
    }
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
