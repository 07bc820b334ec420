// Starts `belvedere lsp` for scripts, and again when its command changes or somebody asks for it. All answers are the server's.
"use strict";

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const INSTALL = 'pip install "belvedere[lsp]"';
let client;

/** The command of the settings, else of a folder's environment, else of the search path. */
function command() {
  const said = vscode.workspace.getConfiguration("belvedere").get("command");
  if (said) return said;
  const own = process.platform === "win32" ? ["Scripts", "belvedere.exe"] : ["bin", "belvedere"];
  const folders = vscode.workspace.workspaceFolders ?? [];
  const found = folders.map((f) => path.join(f.uri.fsPath, ".venv", ...own)).find((p) => fs.existsSync(p));
  return found ?? "belvedere";
}

async function start() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const server = { command: command(), args: ["lsp"], options: folder ? { cwd: folder } : {} };
  const documents = [{ scheme: "file", language: "sqrl" }, { scheme: "untitled", language: "sqrl" }];
  client = new LanguageClient("belvedere", "Belvedere", server, { documentSelector: documents });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const text = `\`${server.command} lsp\` does not start: ${error.message}. Write ${INSTALL}, or set belvedere.command.`;
    const chosen = await vscode.window.showErrorMessage(text, "Open settings");
    if (chosen) vscode.commands.executeCommand("workbench.action.openSettings", "belvedere.command");
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  const changed = (event) => (event.affectsConfiguration("belvedere.command") ? restart() : undefined);
  context.subscriptions.push(vscode.commands.registerCommand("belvedere.restart", restart));
  context.subscriptions.push(vscode.workspace.onDidChangeConfiguration(changed));
  await start();
}

module.exports = { activate, deactivate: stop };
