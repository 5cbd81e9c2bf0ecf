import { execFileSync, type SpawnSyncOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { makeSbom } from './build-sbom.ts'
import { compileSdk, packSdk, runTsc } from './build-sdk.ts'
import { checkSdk } from './check-sdk.ts'

/** In the order in which they need each other's types. */
const packages = ['text', 'policy', 'contract', 'server', 'cli']
/** A service that is not up by then, on however busy a machine, will not come up. */
const startWithinMs = 120_000

const root = fileURLToPath(new URL('..', import.meta.url))
const inPackage = (name: string, ...path: string[]) => join(root, 'packages', name, ...path)
const command = inPackage('cli', 'dist', 'main.js')
/** The tests of the packed files check by themselves what they need; nothing that is published is built like this. */
const isChecked = !process.argv.includes('--unchecked')
/** Only what a process needs: a setting of the shell must not colour the check. */
const bareEnv = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }

function run(program: string, args: string[], options: SpawnSyncOptions = {}): string {
  return execFileSync(program, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    ...options,
  }) as string
}

/** Compiles one package; the packages that it needs are read as compiled ones, so that their types are checked as users get them. */
function compile(name: string, scratch: string): void {
  rmSync(inPackage(name, 'dist'), { recursive: true, force: true })
  const config = join(scratch, `${name}.json`)
  const compilerOptions = {
    noEmit: false,
    customConditions: [],
    rewriteRelativeImportExtensions: true,
    // Of these the packed file has nothing.
    declaration: isChecked,
    sourceMap: isChecked,
    // Sources are not published, so the maps carry them.
    inlineSources: isChecked,
    skipLibCheck: true,
    noCheck: !isChecked,
    // Only checks and declarations need the types of others.
    noResolve: !isChecked,
    typeRoots: [join(root, 'node_modules', '@types')],
    rootDir: inPackage(name, 'src'),
    outDir: inPackage(name, 'dist'),
  }
  const source = inPackage(name, 'src')
  const parts = { include: [source], exclude: [join(source, '**', '*.test.ts'), join(source, 'testing')] }
  const settings = { extends: join(root, 'tsconfig.json'), compilerOptions, ...parts }
  runTsc(config, settings, `packages/${name} does not compile.`)
}

/** Refuses to call it built when a published package would hold anything but code, its description and its licence. */
function checkContents(names: string[]): void {
  const folders = names.map((name) => `./packages/${name}`)
  // Once for all: npm takes longer to start than to list.
  const packed = JSON.parse(run('npm', ['pack', '--dry-run', '--json', ...folders])) as {
    files: { path: string }[]
    unpackedSize: number
  }[]
  for (const [index, { files, unpackedSize }] of packed.entries()) {
    const name = names[index]!
    const paths = files.map(({ path }) => path)
    const strange = paths.filter(
      (path) =>
        !/^(dist\/[\w./-]+\.(js|js\.map|d\.ts)|(dist\/cjs\/)?package\.json|bin\/wardline\.js|dist\/features\/downloads\/(sdk\.tgz|wardline\.py)|dist\/features\/rules\/starter\/([\w-]+\.yml|documents\.json)|dist\/features\/dashboard\/built\/(screens\.json|(index|assets\/[\w.-]+)\.(html|js|css|svg)(\.br|\.gz)?)|README\.md|LICENSE)$/.test(
          path,
        ) || /\.test\.|dist\/testing\//.test(path),
    )
    if (strange.length > 0) throw new Error(`packages/${name} would publish ${strange.join(', ')}.`)
    for (const needed of ['LICENSE', 'README.md', 'package.json']) {
      if (!paths.includes(needed)) throw new Error(`packages/${name} would be published without ${needed}.`)
    }
    console.log(`packages/${name}: ${paths.length} files, ${Math.ceil(unpackedSize / 1024)} KiB`)
  }
}

/** Starts the compiled service as an installation would, asks whether it is alive, and stops it. */
async function checkService(scratch: string): Promise<void> {
  const key = 'this-key-opens-nothing-but-the-check-of-a-build'
  const env = { ...bareEnv, PORT: '0', WARDLINE_API_KEY: key, WARDLINE_DATA_DIR: join(scratch, 'data') }
  const service = spawn(process.execPath, [command, 'serve'], {
    cwd: scratch,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const giveUp = setTimeout(() => service.kill('SIGKILL'), startWithinMs)
  try {
    let url: string | undefined
    for await (const line of createInterface(service.stdout)) {
      url = (JSON.parse(line) as { url?: string }).url
      if (url !== undefined) break
    }
    if (url === undefined) throw new Error('The compiled service did not start.')
    for (const path of ['/healthz', '/sdk.tgz', '/wardline.py']) {
      const answer = await fetch(`${url}${path}`)
      if (answer.status !== 200) throw new Error(`The compiled service answers ${path} with ${answer.status}.`)
      await answer.arrayBuffer()
    }
    const page = await (await fetch(url, { headers: { accept: 'text/html' } })).text()
    if (!page.includes('/assets/')) throw new Error('The compiled service has no dashboard.')
    service.stdout.resume()
    service.kill('SIGTERM')
    const [code] = await once(service, 'exit')
    if (code !== 0) throw new Error(`The compiled service ended with code ${code}.`)
  } finally {
    clearTimeout(giveUp)
    service.kill('SIGKILL')
  }
}

/** Types that do not resolve turn silently into `any`: a program that misuses them must not compile. */
function checkTypes(scratch: string): void {
  const config = join(scratch, 'consumer.json')
  const consumer = join(root, 'packages', 'cli', 'dist', 'consumer.ts')
  writeFileSync(
    consumer,
    `import { limits } from '@wardline/contract'
import { version } from '@wardline/server'
// @ts-expect-error a limit is a number
export const text: string = limits.name
// @ts-expect-error a version is a text
export const number: number = version
`,
  )
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2024',
    strict: true,
    noEmit: true,
    types: ['node'],
    skipLibCheck: true,
    typeRoots: [join(root, 'node_modules', '@types')],
  }
  try {
    runTsc(config, { compilerOptions, files: [consumer] }, 'The compiled packages do not bring their types.')
  } finally {
    rmSync(consumer)
  }
}

/** The parts of an installation, with those in the files of the dashboard, for tools that look for known vulnerabilities. */
function writeSbom(): void {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const sbom = makeSbom(lock, [...packages, 'sdk', 'dashboard'])
  mkdirSync(join(root, 'dist'), { recursive: true })
  writeFileSync(join(root, 'dist', 'sbom.cdx.json'), `${JSON.stringify(sbom, null, 2)}\n`)
  console.log(`dist/sbom.cdx.json: ${sbom.components.length} components`)
}

/** The dashboard lies beside the code that serves it, as files that a browser takes. */
function addDashboard(): void {
  process.stdout.write(run(process.execPath, ['--conditions=wardline-source', inPackage('dashboard', 'build.ts')]))
  const built = inPackage('server', 'dist', 'features', 'dashboard', 'built')
  cpSync(inPackage('dashboard', 'dist'), built, { recursive: true })
  rmSync(join(built, 'sources.sha256'))
}

/** The service serves to agents what they need: the files lie beside the code that does so. */
function addDownloads(sdk: string): void {
  const downloads = inPackage('server', 'dist', 'features', 'downloads')
  copyFileSync(sdk, join(downloads, 'sdk.tgz'))
  copyFileSync(join(root, 'clients', 'python', 'wardline.py'), join(downloads, 'wardline.py'))
}

/** Rules to begin with are files, as those that people write. */
function addStarterRules(): void {
  const [from, to] = ['src', 'dist'].map((folder) => inPackage('server', folder, 'features', 'rules', 'starter'))
  cpSync(from!, to!, { recursive: true })
}

const scratch = mkdtempSync(join(tmpdir(), 'wardline-build-'))
try {
  writeSbom()
  // The command line needs the types of the SDK.
  await compileSdk(scratch, inPackage('sdk', 'dist'))
  for (const name of packages) compile(name, scratch)
  const sdk = packSdk(inPackage('sdk', 'dist'), scratch, join(root, 'dist'))
  addDownloads(sdk.file)
  addStarterRules()
  addDashboard()
  chmodSync(command, 0o755)
  if (isChecked) checkTypes(scratch)
  const version = run(process.execPath, [command, '--version'], { env: bareEnv }).trim()
  if (isChecked) {
    await checkService(scratch)
    await checkSdk(sdk, scratch)
    checkContents([...packages, 'sdk'])
  }
  console.log(`wardline ${version} is built: node packages/cli/dist/main.js serve`)
} catch (fault) {
  console.error((fault as Error).message)
  process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
