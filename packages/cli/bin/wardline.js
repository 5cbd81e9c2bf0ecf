#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
// As a whole: Node 20, which lacks names that are used here, must be able to read this file.
import * as modules from 'node:module'
import { fileURLToPath } from 'node:url'

// The file that npm links as `wardline`. In a clone it runs the sources, in an installed package the compiled code.

const isClone = existsSync(new URL('../src/main.js', import.meta.url))
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const isTooOld = major < 24 || (major === 24 && minor < 15)

if (isTooOld) startOnOwnNode()
else {
  // The same as `--conditions=wardline-source`, which a linked file cannot give to Node on every system.
  if (isClone) {
    modules.registerHooks({
      resolve: (name, context, next) =>
        next(name, { ...context, conditions: [...context.conditions, 'wardline-source'] }),
    })
  }
  await import(isClone ? '../src/main.js' : '../dist/main.js')
}

/**
 * Returns the Node of the clone, from the package that npm chose for this machine; undefined without one. Not from
 * `node_modules/.bin`: on Windows that has scripts, which start only through a shell.
 */
function findOwnNode() {
  const isWindows = process.platform === 'win32'
  const machine = `${isWindows ? 'win' : process.platform}-${process.arch}`
  return [`node-${machine}`, `node-bin-${machine}`]
    .map((name) => new URL(`../../../node_modules/${name}/bin/node${isWindows ? '.exe' : ''}`, import.meta.url))
    .map((url) => fileURLToPath(url))
    .find((path) => existsSync(path))
}

/** `npx` takes the clone's Node; a call of the linked file by its path may come from an older one. */
function startOnOwnNode() {
  const own = isClone ? findOwnNode() : undefined
  if (own === undefined) {
    console.error(`Wardline needs Node 24.15 or newer, this is ${process.versions.node}: install a newer Node`)
    process.exitCode = 1
    return
  }
  const child = spawn(own, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' })
  // A terminal sends these two to both processes.
  for (const signal of ['SIGINT', 'SIGHUP']) process.on(signal, () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  child.once('exit', (code) => process.exit(code ?? 1))
}
