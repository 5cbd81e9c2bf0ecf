import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { exported, type Packed, runTsc } from './build-sdk.ts'

// Whether the compiled SDK is what agents can install: small, whole, typed, and the same for `import` and `require`.

/**
 * Unpacked, in bytes: small enough to add to an agent without a second thought. Raised from 118,000 for what hostile
 * arguments and MCP messages cannot get past, from 126,000 for reading what a tool call does, from 138,000 for the names
 * of tools in use and for results, from 148,000 for policies (55 KB decide, 30 KB receive them, remember and ask), from
 * 240,000 for the supervisor, and from 265,000 for the configuration of coding agents, which only their hook loads.
 */
const maxBytes = 285_000

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'packages', 'sdk')
const packageName = '@wardline/sdk'

/** Has the packed package looked at as its users' tools will. */
async function checkPacked({ file, unpackedSize }: Packed): Promise<void> {
  const faults: string[] = []
  if (unpackedSize > maxBytes) faults.push(`It has ${unpackedSize} bytes unpacked; ${maxBytes} are the most.`)
  const tarball = new Uint8Array(readFileSync(file))

  const { messages, pkg } = await publint({ pack: { tarball: tarball.buffer }, strict: true })
  faults.push(...messages.map((message) => formatMessage(message, pkg) ?? message.code))

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
export const readOrDenial: (path: string) => Promise<number | Denial> = monitor.guardTool('read', size, { onDeny: 'return' })
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
    runTsc(join(scratch, 'sdk-consumer.json'), { compilerOptions, files }, 'packages/sdk does not bring its types.')
  } finally {
    for (const file of files) rmSync(file)
  }
}

/** Throws what is wrong with the compiled SDK, or with the file that it was packed into. */
export async function checkSdk(packed: Packed, scratch: string): Promise<void> {
  await checkPacked(packed)
  checkLoading()
  checkTypes(scratch)
}
