import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { answersOf, type Block, blocksOf, isCommand, pattern } from './document-blocks.ts'
import { newFolder, root, withPort } from './fresh-clone.ts'
import { machinePath } from './machine-path.ts'

export interface Walk {
  /** Path of the document in the repository. */
  document: string
  /** Clone with the service. */
  clone: string
  /** Working directory of its commands. Default: the clone. */
  folder?: string
  port: number
  /** Folders at the start of PATH. */
  bins?: string[]
  /** Environment variables in addition to those of a shell. */
  env?: Record<string, string>
  /** Replacements for addresses and other values that no test machine has. */
  standIns?: Record<string, string>
}

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
/** Only a command that hangs takes this long. */
const longestMs = 900_000

/** Program and file extension by language. */
const programs: Record<string, [program: string, ending: string]> = {
  ts: ['node', 'mjs'],
  js: ['node', 'mjs'],
  python: ['python3', 'py'],
}
const shells = ['bash', 'sh']
/** Checks by language: data must be well formed, and sample output must contain no commands. */
const read: Record<string, (text: string) => unknown> = { json: JSON.parse, yaml: (text) => parse(text), text: String }

/** Matches a line that looks like a shell command. */
const commandLine = /^\s*(\$ )?(npm|npx|node|wardline|wardline-agent|curl|python3?|docker|git|cd|export|sudo) /m

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
const replaceAll = (text: string, values: [string, string][]): string =>
  values.reduce((result, [from, to]) => result.replaceAll(new RegExp(escaped(from), 'g'), () => to), text)

/** Returns a line of a shell block as it is run: with Ctrl-C or an answer of yes if its comment says so. */
function shellLine(line: string, answered: number): string {
  const [, command, remark = ''] = /^(\S.*?)\s+# (.*)/.exec(line) ?? []
  if (remark.includes('until Ctrl-C')) {
    // Of `first && last` only the last runs until Ctrl-C.
    const [, first = '', last] = /^(.* && )?(.*)$/.exec(command!)!
    return `${first}until_interrupted ${Math.max(1, answered)} ${last}`
  }
  return /\basks\b/.test(remark) ? `saying_yes ${command}` : line
}

function shellLines(block: Block): string[] {
  const answers = answersOf(block)
  return block.text.split('\n').map((line, index) => {
    if (block.leftOut.some((command) => isCommand(line, command))) return ':'
    const below = block.open + 2 + index
    return shellLine(line, answers.find(({ line: begin }) => begin === below)?.expected.length ?? 0)
  })
}

/** Returns a script that runs the blocks in order in one shell, with the line numbers of the document. */
function scriptOf(text: string, blocks: Block[], folder: string): string {
  const script = Array<string>(text.split('\n').length).fill('')
  let python = ''
  for (const block of blocks.filter(({ notRun }) => notRun === undefined)) {
    const code = programs[block.language]
    let lines: string[]
    if (code) {
      const [program, ending] = code
      const name = `block-${block.open}.${ending}`
      // A later block of Python continues the previous one.
      if (block.language === 'python') python += `${block.text}\n`
      const source = ending === 'mjs' ? stripTypeScriptTypes(block.text) : python
      writeFileSync(join(folder, 'blocks', name), source)
      lines = [`walk_code ${program} ${name}`]
    } else if (shells.includes(block.language)) lines = shellLines(block).map((line) => replaceAll(line, block.values))
    else if (block.storedAs !== undefined) {
      writeFileSync(join(folder, 'blocks', `block-${block.open}`), block.text)
      const values = block.values.flatMap(([shown, command]) => [`'${shown}'`, `"${command}"`])
      lines = [`walk_store block-${block.open} ${block.storedAs} ${values.join(' ')}`]
    } else continue
    for (const [index, line] of lines.entries()) script[block.open + index] = line
    script[block.open - 1] = [...block.after, block.inBackground ? 'walk_stop; set -m; {' : ':'].join('; ')
    script[block.close - 1] = block.inBackground ? '} >>"$WALK/service" 2>&1 9>&- & set +m; walk_started $!' : ':'
  }
  return script.join('\n')
}

/** Throws if a block is neither run nor parsed and gives no reason. */
function checkKinds(blocks: Block[], document: string): void {
  for (const { language, open, text, notRun } of blocks) {
    if (notRun !== undefined || shells.includes(language) || language in programs) continue
    const place = `${document}:${open}`
    if (['', 'text'].includes(language) && commandLine.test(text))
      throw new Error(`${place}: commands need a language (\`\`\`bash), or <!-- not run: reason --> above`)
    const parser = read[language]
    if (parser) parser(text)
    else if (language !== '')
      throw new Error(`${place}: nothing runs \`\`\`${language}: say why by <!-- not run: reason --> above`)
  }
}

/** Returns the output of each line. */
function outputsOf(printed: string): Map<number, string> {
  const outputs = new Map<number, string>()
  const [, ...parts] = printed.split('\u001e')
  for (const part of parts) {
    const [, line = '', output = ''] = /^(\d+)\n(.*)$/s.exec(part) ?? []
    outputs.set(Number(line), `${outputs.get(Number(line)) ?? ''}${output}`)
  }
  return outputs
}

function faultsOf(blocks: Block[], outputs: Map<number, string>, document: string): string[] {
  const lines = [...outputs.keys()].sort((a, b) => a - b)
  return blocks
    .filter(({ notRun, language }) => notRun === undefined && shells.includes(language))
    .flatMap((block) => answersOf(block))
    .flatMap(({ line, expected }) => {
      const command = lines.findLast((other) => other < line)
      const output = (command === undefined ? '' : outputs.get(command)!).trim()
      const shown = expected.join('\n').trim()
      return pattern(shown).test(output) ? [] : [`${document}:${line} shows\n${shown}\nbut it prints\n${output}`]
    })
}

/** Whether a document has blocks to run. Throws if a block is neither run nor parsed and gives no reason. */
export function hasCommands(document: string): boolean {
  const blocks = blocksOf(readFileSync(join(root, document), 'utf8'))
  checkKinds(blocks, document)
  return blocks.some(
    ({ language, notRun }) => notRun === undefined && (shells.includes(language) || language in programs),
  )
}

/** Runs a document like its readers. Throws with the line that failed or whose output differs from the document. */
export async function walk({
  document,
  clone,
  folder = clone,
  port,
  bins = [],
  env = {},
  standIns = {},
}: Walk): Promise<void> {
  const text = withPort(replaceAll(readFileSync(join(root, document), 'utf8'), Object.entries(standIns)), port)
  const blocks = blocksOf(text)
  checkKinds(blocks, document)
  const scratch = newFolder()
  mkdirSync(join(scratch, 'blocks'))
  const script = join(scratch, document.replaceAll('/', '-'))
  writeFileSync(script, scriptOf(text, blocks, scratch))
  const home = join(scratch, 'home')
  mkdirSync(home)
  const child = spawn('bash', ['-eo', 'pipefail', script], {
    cwd: folder,
    // From this shell only the variables that locate programs and packages.
    env: {
      PATH: [join(home, 'global', 'bin'), ...bins, machinePath].join(delimiter),
      HOME: home,
      BASH_ENV: here('./document-walk.sh'),
      WALK: scratch,
      WALK_CLONE: clone,
      WALK_AGENT: here('./document-agent.js'),
      WALK_PORT: String(port),
      npm_config_prefix: join(home, 'global'),
      npm_config_cache: process.env.npm_config_cache ?? join(process.env.HOME ?? '', '.npm'),
      npm_config_userconfig: join(process.env.HOME ?? '', '.npmrc'),
      npm_config_update_notifier: 'false',
      npm_config_prefer_offline: 'true',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk) => {
      printed += chunk
    })
  const groups = join(scratch, 'groups')
  const end = () => endGroups([child.pid!, ...groupsIn(groups)])
  const giveUp = setTimeout(end, longestMs)
  // The runner may terminate a worker during a walk.
  process.once('exit', end)
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    const outputs = outputsOf(printed)
    if (code !== 0) {
      const last = [...outputs.keys()].at(-1)
      throw new Error(`${document}:${last} ends with ${code}:\n${outputs.get(last ?? 0) ?? printed}`)
    }
    const faults = faultsOf(blocks, outputs, document)
    if (faults.length > 0) throw new Error(faults.join('\n\n'))
  } finally {
    clearTimeout(giveUp)
    process.off('exit', end)
    end()
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Process groups that the script has started. */
const groupsIn = (file: string): number[] =>
  existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : []

/** Terminates the started processes and their children. */
function endGroups(groups: number[]): void {
  for (const group of groups) {
    try {
      process.kill(-group, 'SIGKILL')
    } catch {
      // It has already exited.
    }
  }
}
