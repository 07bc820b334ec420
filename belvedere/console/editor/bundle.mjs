// Writes codemirror.js, one module without dependencies, and the licences of all that is in it.

import { build } from "esbuild";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const made = await build({
  entryPoints: ["parts.mjs"], bundle: true, minify: true, format: "esm", target: "es2022", outfile: "codemirror.js", metafile: true, legalComments: "none", logLevel: "info",
  banner: { js: "/* Made by bundle.mjs of CodeMirror, cm6-graphql and graphql-js: LICENSES.txt */" },
});

/** The folder of the package that a file is part of: the nearest above it whose package.json has a name and a version. */
function packageOf(file) {
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) {
    const path = join(folder, "package.json");
    if (existsSync(path)) {
      const { name, version, license } = JSON.parse(readFileSync(path, "utf8"));
      if (name && version) return { folder, name, version, license };
    }
  }
  throw new Error(`${file} is part of no package`);
}

const inputs = Object.values(made.metafile.outputs)[0].inputs;
const files = Object.keys(inputs).filter((f) => f.includes("node_modules") && inputs[f].bytesInOutput);
const packages = [...new Map(files.map(packageOf).map((p) => [p.name, p])).values()].sort((a, b) => a.name.localeCompare(b.name));
const texts = packages.map(({ folder, name, version, license }) => {
  if (license !== "MIT") throw new Error(`${name} has the licence ${license}: see first whether it allows this`);
  const file = readdirSync(folder).find((f) => /^licen[sc]e/i.test(f));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : "MIT, as its package.json says.";
  return `${name} ${version}\n${"-".repeat(name.length + version.length + 1)}\n\n${text}\n`;
});
writeFileSync("LICENSES.txt", texts.join("\n\n"));
