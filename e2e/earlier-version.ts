import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { newDataDir } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)

/** Links the dependencies. Links between the packages are relative, and copied, so that they lead to the old ones. */
function linkDependencies(folder: string): void {
  const [from, to] = [join(root, 'node_modules'), join(folder, 'node_modules')]
  mkdirSync(join(to, '@wardline'), { recursive: true })
  for (const name of readdirSync(from)) {
    if (name !== '@wardline' && name !== '.cache') symlinkSync(join(from, name), join(to, name))
  }
  for (const name of readdirSync(join(from, '@wardline'))) {
    symlinkSync(readlinkSync(join(from, '@wardline', name)), join(to, '@wardline', name))
  }
}

/** Resolves with the path of the command line of a commit, bundled in a folder that is removed with the tests. */
export async function commandOf(commit: string): Promise<string> {
  const folder = newDataDir()
  const archive = join(folder, 'sources.tar')
  const parts = ['packages', 'tools', 'package.json', 'package-lock.json']
  await run('git', ['archive', `--output=${archive}`, commit, ...parts], { cwd: root })
  await run('tar', ['-xf', archive, '-C', folder])
  linkDependencies(folder)
  await run(process.execPath, [join(folder, 'tools/bundle.ts')], { cwd: folder })
  return join(folder, 'node_modules/.cache/wardline/start.mjs')
}
