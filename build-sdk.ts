import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { rolldown } from 'rolldown'

// The SDK runs inside other people's programs, so it comes for `import` and for `require`, down to Node 20. There is one
// copy of the code, for `require`, and a file of names for `import`: two copies would not know each other's errors.

/** Unpacked, so that nobody hesitates to add it to an agent. */
const mostBytes = 100_000

const root = fileURLToPath(new URL('.', import.meta.url))
const folder = join(root, 'packages', 'sdk')
const source = join(folder, 'src')
const dist = join(folder, 'dist')
const require = createRequire(import.meta.url)

interface PackageJson {
  name: string
  exports: Record<string, { 'wardline-source': string }>
  bin?: Record<string, string>
}
const { name: packageName, exports, bin = {} }: PackageJson = require(join(folder, 'package.json'))
/** Names of the files that are entered from outside: `./src/<name>.ts` becomes `./dist/<name>.js`. */
const exported = Object.entries(exports).map(([path, conditions]) => ({
  path,
  name: conditions['wardline-source'].replace(/^\.\/src\/(.+)\.ts$/, '$1'),
}))
const commands = Object.values(bin).map((file) => file.replace(/^(\.\/)?dist\/(.+)\.js$/, '$2'))
const entries = [...exported.map(({ name }) => name), ...commands]

function compile(config: string, settings: object, fault: string): void {
  writeFileSync(config, JSON.stringify(settings))
  try {
    execFileSync('tsc', ['-p', config], { stdio: 'inherit' })
  } catch {
    throw new Error(fault)
  }
}

/** Types of every source file, checked against what Node 20 has. */
function compileTypes(scratch: string, outDir: string): void {
  const compilerOptions = {
    noEmit: false,
    emitDeclarationOnly: true,
    declaration: true,
    customConditions: [],
    target: 'es2022',
    lib: ['es2023', 'es2024.string'],
    typeRoots: [join(root, 'node_modules', '@types')],
    rootDir: source,
    outDir,
  }
  const exclude = [join(source, '**', '*.test.ts'), join(source, 'test-*.ts')]
  const settings = { extends: join(root, 'tsconfig.json'), compilerOptions, include: [source], exclude }
  compile(join(scratch, 'sdk.json'), settings, 'packages/sdk does not compile.')
}

/** Publishes the types that an entry names, and those that these name; the others stay inside. */
function publishTypes(from: string, name: string, published: Set<string>): void {
  if (published.has(name)) return
  published.add(name)
  const text = readFileSync(join(from, `${name}.d.ts`), 'utf8')
  const target = join(dist, 'cjs', `${name}.d.ts`)
  mkdirSync(dirname(target), { recursive: true })
  writeFileSync(target, text.replaceAll(/'(\.{1,2}\/[\w./-]+)\.ts'/g, "'$1.js'"))
  for (const [, other] of text.matchAll(/'(\.{1,2}\/[\w./-]+)\.ts'/g)) {
    publishTypes(from, join(dirname(name), other!), published)
  }
}

async function bundleCode(): Promise<void> {
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(source, `${name}.ts`)])),
    platform: 'node',
    // Frameworks belong to the agent.
    external: (id) => !id.startsWith('.') && !id.startsWith('/'),
    transform: { target: 'es2022' },
  })
  await bundle.write({
    dir: join(dist, 'cjs'),
    format: 'cjs',
    entryFileNames: '[name].js',
    chunkFileNames: 'shared-[hash].js',
    comments: false,
    minify: { compress: true, mangle: true, codegen: { removeWhitespace: true } },
  })
  await bundle.close()
  writeFileSync(join(dist, 'cjs', 'package.json'), '{"type":"commonjs"}\n')
}

export async function compileSdk(scratch: string): Promise<void> {
  rmSync(dist, { recursive: true, force: true })
  mkdirSync(join(dist, 'cjs'), { recursive: true })
  await bundleCode()
  const types = join(scratch, 'sdk-types')
  compileTypes(scratch, types)
  const published = new Set<string>()
  for (const { name } of exported) {
    publishTypes(types, name, published)
    const names = Object.keys(require(join(dist, 'cjs', `${name}.js`)))
    writeFileSync(join(dist, `${name}.js`), `export { ${names.join(', ')} } from './cjs/${name}.js'\n`)
    writeFileSync(join(dist, `${name}.d.ts`), `export * from './cjs/${name}.js'\n`)
  }
  for (const name of commands) {
    writeFileSync(join(dist, `${name}.js`), `#!/usr/bin/env node\nimport './cjs/${name}.js'\n`, { mode: 0o755 })
  }
}

/** Has the packed package looked at as its users' tools will. */
async function checkPacked(scratch: string): Promise<void> {
  const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', scratch], {
    cwd: folder,
    encoding: 'utf8',
  })
  const [{ filename, unpackedSize }] = JSON.parse(packed) as [{ filename: string; unpackedSize: number }]
  const faults: string[] = []
  if (unpackedSize > mostBytes) faults.push(`It has ${unpackedSize} bytes unpacked; ${mostBytes} are the most.`)
  const tarball = new Uint8Array(readFileSync(join(scratch, filename)))

  const { messages, pkg } = await publint({ pack: { tarball: tarball.buffer }, strict: true })
  // The condition by which the packages of this repository find each other's sources means nothing to anybody else.
  const meant = messages.filter(({ path }) => !path.includes('wardline-source'))
  faults.push(...meant.map((message) => formatMessage(message, pkg) ?? message.code))

  const analysis = await checkPackage(createPackageFromTarballData(tarball))
  if (!analysis.types) throw new Error('packages/sdk is packed without types.')
  // "node10" is how types were found before there were exports: no version of Node that runs this does so.
  const problems = analysis.problems.filter(
    (problem) => !('resolutionKind' in problem && problem.resolutionKind === 'node10'),
  )
  faults.push(...problems.map((problem) => JSON.stringify(problem)))
  if (faults.length > 0) throw new Error(`packages/sdk is not fit to be published:\n${faults.join('\n')}`)
}

/** Loads every entry both ways, by its name, and compares what comes. */
function checkLoading(): void {
  for (const { path } of exported) {
    const name = join(packageName, path)
    const program = `const required = require('${name}')
      import('${name}').then((imported) => {
        const names = Object.keys(required).filter((name) => imported[name] === required[name])
        if (names.length === 0 || names.length !== Object.keys(required).length) throw new Error('import and require of ${name} differ')
      })`
    execFileSync(process.execPath, ['--input-type=commonjs', '-e', program], { cwd: root, stdio: 'inherit' })
  }
}

/** Types that do not resolve turn silently into `any`: a program that misuses them must not compile. */
function checkTypes(scratch: string): void {
  const files = ['mts', 'cts'].map((extension) => join(folder, `consumer.${extension}`))
  const program = `import { createMonitor, type Denial } from '${packageName}'
const monitor = createMonitor({ url: 'http://127.0.0.1', key: 'key', instanceId: 'agent-1' })
const size = (path: string) => path.length
export const read: (path: string) => Promise<number> = monitor.guardTool('read', size)
export const told: (path: string) => Promise<number | Denial> = monitor.guardTool('read', size, { onDeny: 'return' })
// @ts-expect-error a tool keeps its arguments
void read(7)
// @ts-expect-error there are two fail modes
createMonitor({ url: '', key: '', instanceId: '', failMode: 'half' })
`
  for (const file of files) writeFileSync(file, program)
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2022',
    strict: true,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  try {
    compile(join(scratch, 'sdk-consumer.json'), { compilerOptions, files }, 'packages/sdk does not bring its types.')
  } finally {
    for (const file of files) rmSync(file)
  }
}

export async function checkSdk(scratch: string): Promise<void> {
  await checkPacked(scratch)
  checkLoading()
  checkTypes(scratch)
}
