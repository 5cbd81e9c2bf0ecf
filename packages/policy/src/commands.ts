/** Characters of a command line that are taken apart. A longer one cannot be evaluated. */
const maxCommand = 65_536
const maxDepth = 8

/** Programs that run the command behind them, with the options that take a value. */
const wrappers = new Set(
  'sudo doas env nohup nice ionice time timeout stdbuf setsid xargs watch command exec builtin eval busybox chroot unshare'.split(
    ' ',
  ),
)
const shells = /^(?:.*\/)?(?:ba|z|da|k|a)?sh$/

let last: { line: string; lines: readonly string[] | undefined } | undefined

/**
 * Returns a command line and each of its commands as texts in lower case, to be compared with patterns. Undefined if it is
 * too long or nested. The last line is remembered: every rule of a policy asks for the same one.
 */
export function commandLines(line: string): readonly string[] | undefined {
  if (last?.line !== line) {
    const commands = commandsOf(line)
    const lines = commands && [line.trim(), ...commands.map((words) => words.join(' '))]
    last = { line, lines: lines?.map((text) => text.toLowerCase()) }
  }
  return last.lines
}

/**
 * Splits a command line into its simple commands, each as words without quotes: those of lists and pipes, in `$(…)` and
 * backticks, behind wrappers such as `sudo` and `timeout 5`, and the text of `sh -c`. Undefined if it is too long or nested.
 */
export function commandsOf(line: string, depth = 0): string[][] | undefined {
  if (line.length > maxCommand || depth > maxDepth) return undefined
  const commands: string[][] = []
  const inner: string[] = []
  let words: string[] = []
  let word: string | undefined
  const endWord = () => {
    if (word !== undefined) words.push(word)
    word = undefined
  }
  const endCommand = () => {
    endWord()
    if (words.length > 0) commands.push(words)
    words = []
  }
  for (let at = 0; at < line.length; at++) {
    const sign = line[at]!
    if (sign === '\\') {
      at += 1
      if (line[at] !== '\n') word = (word ?? '') + (line[at] ?? '')
    } else if (sign === "'") {
      const end = line.indexOf("'", at + 1)
      word = (word ?? '') + line.slice(at + 1, end < 0 ? undefined : end)
      at = end < 0 ? line.length : end
    } else if (sign === '"') {
      const end = endOfQuoted(line, at + 1)
      const text = line.slice(at + 1, end)
      inner.push(...substitutionsOf(text))
      word = (word ?? '') + text.replaceAll(/\\(["\\$`])/g, '$1')
      at = end
    } else if ((sign === '$' && line[at + 1] === '(') || sign === '`' || (/[<>]/.test(sign) && line[at + 1] === '(')) {
      const end = endOfSubstitution(line, at)
      inner.push(line.slice(sign === '`' ? at + 1 : at + 2, end))
      word = (word ?? '') + line.slice(at, end + 1)
      at = end
    } else if (/[\n;&|(){}]/.test(sign) && !(/[{}]/.test(sign) && word !== undefined)) endCommand()
    else if (/\s/.test(sign)) endWord()
    else if (sign === '#' && word === undefined) {
      const end = line.indexOf('\n', at)
      at = end < 0 ? line.length : end - 1
    } else word = (word ?? '') + sign
  }
  endCommand()
  for (const text of inner) {
    const found = commandsOf(text, depth + 1)
    if (!found) return undefined
    commands.push(...found)
  }
  const unwrapped: string[][] = []
  for (const command of commands) {
    const found = unwrap(command, depth)
    if (!found) return undefined
    unwrapped.push(...found)
  }
  return unwrapped
}

function endOfQuoted(line: string, from: number): number {
  for (let at = from; at < line.length; at++) {
    if (line[at] === '\\') at += 1
    else if (line[at] === '"') return at
  }
  return line.length
}

function endOfSubstitution(line: string, from: number): number {
  if (line[from] === '`') {
    const end = line.indexOf('`', from + 1)
    return end < 0 ? line.length : end
  }
  let depth = 0
  for (let at = from + 1; at < line.length; at++) {
    if (line[at] === '\\') at += 1
    else if (line[at] === '(') depth += 1
    else if (line[at] === ')' && --depth === 0) return at
  }
  return line.length
}

function substitutionsOf(text: string): string[] {
  const found: string[] = []
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '`' || (text[at] === '$' && text[at + 1] === '(')) {
      const end = endOfSubstitution(text, at)
      found.push(text.slice(text[at] === '`' ? at + 1 : at + 2, end))
      at = end
    }
  }
  return found
}

/** Returns a command, and the one that it runs: each is what a pattern may speak of. */
function unwrap(words: readonly string[], depth: number): string[][] | undefined {
  if (depth > maxDepth) return undefined
  const start = words.findIndex((word) => !/^\w+=/.test(word) && !/^(?:if|then|else|do|while|until|!)$/.test(word))
  if (start < 0) return []
  const command = words.slice(start)
  const program = command[0]!.replace(/^.*\//, '')
  const named = [program, ...command.slice(1)]
  if (shells.test(command[0]!) || program === 'eval') {
    const flag = program === 'eval' ? 0 : command.findIndex((word, at) => at > 0 && /^-\w*c/.test(word))
    if (flag < 0) return [named]
    const found = commandsOf(program === 'eval' ? command.slice(1).join(' ') : (command[flag + 1] ?? ''), depth + 1)
    return found && [named, ...found]
  }
  if (!wrappers.has(program)) return [named]
  // Which options take a value differs; each position where the inner command may begin is one reading.
  const readings: string[][] = []
  for (let at = 1; at < Math.min(command.length, 8); at++) {
    if (command[at]!.startsWith('-') || /^\w+=/.test(command[at]!)) continue
    const found = unwrap(command.slice(at), depth + 1)
    if (!found) return undefined
    readings.push(...found)
    if (!/^[\d.]+[smhd]?$/.test(command[at]!) && !command[at - 1]!.startsWith('-')) break
  }
  return [named, ...readings]
}
