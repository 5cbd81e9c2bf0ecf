import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { parseAst } from 'rolldown/parseAst'

// The SDK runs inside other people's programs, so it comes for `import` and for `require`, down to Node 20. There is one
// copy of the code, for `require`, and a file of names for `import`: two copies would not know each other's errors.

const root = fileURLToPath(new URL('..', import.meta.url))
const packages = join(root, 'packages')
const folder = join(packages, 'sdk')
const source = join(folder, 'src')
const policy = join(packages, 'policy', 'src')
const require = createRequire(import.meta.url)

interface PackageJson {
  exports: Record<string, Record<'import' | 'require', { default: string }> & { 'wardline-source': string }>
  bin?: Record<string, string>
}
const { exports, bin = {} }: PackageJson = require(join(folder, 'package.json'))
/** Names of the files that are entered from outside: `./src/<name>.ts` becomes `./dist/<name>.js`. */
export const exported = Object.entries(exports).map(([path, conditions]) => ({
  path,
  name: conditions['wardline-source'].replace(/^\.\/src\/(.+)\.ts$/, '$1'),
}))
const commands = Object.values(bin).map((file) => file.replace(/^(\.\/)?dist\/(.+)\.js$/, '$2'))
const entries = [...exported.map(({ name }) => name), ...commands]

/** Checks or compiles what the settings say. Standard output stays free: a service reads the packed SDK from it. */
export function runTsc(config: string, settings: object, fault: string): void {
  writeFileSync(config, JSON.stringify(settings))
  try {
    // By its path, because a service that packs the SDK may run without node_modules/.bin in the path.
    execFileSync(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', config], {
      stdio: ['ignore', 2, 2],
    })
  } catch {
    throw new Error(fault)
  }
}

/** Types of every source file, and of the policy decisions in it, checked against what Node 20 has. */
function compileTypes(scratch: string, outDir: string): void {
  const compilerOptions = {
    noEmit: false,
    emitDeclarationOnly: true,
    declaration: true,
    target: 'es2022',
    lib: ['es2023', 'es2024.string'],
    typeRoots: [join(root, 'node_modules', '@types')],
    rootDir: packages,
    outDir,
  }
  const exclude = [join(source, '**', '*.test.ts'), join(source, 'testing')]
  const settings = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [source], exclude }
  runTsc(join(scratch, 'sdk.json'), settings, 'packages/sdk does not compile.')
}

/** Publishes the types that an entry names, and those that these name; the others stay inside. */
function publishTypes(from: string, dist: string, name: string, published: Set<string>): void {
  if (published.has(name)) return
  published.add(name)
  const text = readFileSync(join(from, `${name}.d.ts`), 'utf8')
  if (text.includes("'@wardline/")) throw new Error(`${name}.ts publishes types of another package, which agents lack.`)
  const target = join(dist, 'cjs', `${name}.d.ts`)
  mkdirSync(dirname(target), { recursive: true })
  // Tabs, and comments without an asterisk on each line: 4 KB less.
  const indented = text
    .replace(/^(?: {4})+/gm, (indent) => '\t'.repeat(indent.length / 4))
    .replace(/\n\t* \*(?: |(?=\n))/g, '\n')
    .replace(/\n\t* \*\/$/gm, ' */')
  writeFileSync(target, indented.replaceAll(/'(\.{1,2}\/[\w./-]+)\.ts'/g, "'$1.js'"))
  for (const [, other] of text.matchAll(/'(\.{1,2}\/[\w./-]+)\.ts'/g)) {
    publishTypes(from, dist, join(dirname(name), other!), published)
  }
}

/**
 * No export ever changes its value, so that it needs no getter, nothing asks a module for its name, and `require` finds
 * the ending: 4 KB less.
 */
function withPlainExports(code: string): string {
  const getter = /Object\.defineProperty\(exports,"(\w+)",\{enumerable:!0,get:function\(\)\{return ([\w$]+)\}\}\)/g
  const name = 'Object.defineProperty(exports,Symbol.toStringTag,{value:`Module`});'
  const required = /require\((["`])(\.\/[\w-]+)\.js\1\)/g
  return code.replace(name, '').replaceAll(getter, 'exports.$1=$2').replaceAll(required, 'require("$2")')
}

type Statement = ReturnType<typeof parseAst>['body'][number]

/** Where a statement and those directly in it begin. */
function* startsIn(statement: Statement): Generator<number> {
  yield statement.start
  if (statement.type === 'FunctionDeclaration') for (const { start } of statement.body?.body ?? []) yield start
  if (statement.type !== 'VariableDeclaration') return
  for (const { init } of statement.declarations) {
    if (init?.type === 'ClassExpression') for (const { start } of init.body.body) yield start
  }
}

/** Node prints the line of an error that ends a program: so it is one statement, not the whole file. */
function withLines(code: string): string {
  const starts = parseAst(code).body.flatMap((statement) => [...startsIn(statement as Statement)])
  return starts.map((start, place) => code.slice(start, starts[place + 1])).join('\n')
}

/** Delivered policies have the labels that they need, so agents need no packs. */
const withoutPacks = {
  name: 'without-packs',
  load: (id: string) => (id === join(policy, 'packs.ts') ? 'export const packs = {}' : null),
}

async function bundleCode(dist: string): Promise<void> {
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(source, `${name}.ts`)])),
    platform: 'node',
    // Frameworks belong to the agent. Policy decisions become part of the SDK, which depends on no package.
    external: (id) => !id.startsWith('.') && !id.startsWith('/') && id !== '@wardline/policy',
    resolve: { conditionNames: ['wardline-source', 'node', 'import'] },
    plugins: [withoutPacks],
    transform: { target: 'es2022' },
  })
  await bundle.write({
    dir: join(dist, 'cjs'),
    format: 'cjs',
    entryFileNames: '[name].js',
    // Each name stands in a hundred places: 1 KB less than with longer ones.
    chunkFileNames: '[hash:6].js',
    comments: false,
    minify: { compress: true, mangle: true, codegen: { removeWhitespace: true } },
  })
  await bundle.close()
  for (const file of readdirSync(join(dist, 'cjs')).map((name) => join(dist, 'cjs', name))) {
    writeFileSync(file, withLines(withPlainExports(readFileSync(file, 'utf8'))))
  }
  writeFileSync(join(dist, 'cjs', 'package.json'), '{"type":"commonjs"}\n')
}

/** Compiles the SDK into a folder within this repository. */
export async function compileSdk(scratch: string, dist: string): Promise<void> {
  rmSync(dist, { recursive: true, force: true })
  mkdirSync(join(dist, 'cjs'), { recursive: true })
  await bundleCode(dist)
  const types = join(scratch, 'sdk-types')
  compileTypes(scratch, types)
  const published = new Set<string>()
  for (const { name } of exported) {
    publishTypes(join(types, 'sdk', 'src'), dist, name, published)
    // Node finds the names of exports in the text of the code; `checkSdk` compares them.
    writeFileSync(join(dist, `${name}.js`), `export * from './cjs/${name}.js'\n`)
    writeFileSync(join(dist, `${name}.d.ts`), `export * from './cjs/${name}.js'\n`)
  }
  for (const name of commands) {
    writeFileSync(join(dist, `${name}.js`), `#!/usr/bin/env node\nimport './cjs/${name}.js'\n`, { mode: 0o755 })
  }
}

export interface Packed {
  file: string
  /** Bytes. */
  unpackedSize: number
}

/**
 * Packs a compiled SDK into a folder. Its optional peers are only named: for ranges npm would ask the registry, which an
 * agent that installs from the service may not reach.
 */
export function packSdk(compiled: string, scratch: string, into: string): Packed {
  const stage = join(scratch, 'sdk-stage')
  for (const name of ['README.md', 'LICENSE']) cpSync(join(folder, name), join(stage, name))
  cpSync(compiled, join(stage, 'dist'), { recursive: true })
  const { peerDependencies: _ranges, devDependencies: _tools, ...description } = require(join(folder, 'package.json'))
  // Types are beside the code, and the condition for sources has a meaning in this repository only: 1.3 KB less.
  const paths = Object.entries(exports).map(([path, { import: esm, require: cjs }]) => [
    path,
    { import: esm.default, require: cjs.default },
  ])
  const packed = { ...description, exports: Object.fromEntries(paths) }
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(packed)}\n`)
  const args = ['pack', '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', into]
  const [{ filename, unpackedSize }] = JSON.parse(execFileSync('npm', args, { cwd: stage, encoding: 'utf8' })) as [
    { filename: string; unpackedSize: number },
  ]
  return { file: join(into, filename), unpackedSize }
}
