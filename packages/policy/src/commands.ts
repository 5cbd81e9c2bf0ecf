import {
  ansiQuoted,
  commandsIn,
  endOfQuoted,
  endOfSubstitution,
  isSubstitution,
  substitutionsOf,
  unlessTooDeep,
  unquoted,
} from './shell-text.ts'

/** Characters of a command line that are taken apart. A longer one cannot be evaluated. */
const maxCommand = 65_536
const maxDepth = 8
/** Commands of one line, and their characters: every rule compares them. A line of more cannot be evaluated. */
const maxCommands = 1_000
const maxText = 2 * maxCommand
/** Places of a wrapper's words at which the inner command may begin. */
const maxReadings = 16

const listed = (names: string): ReadonlySet<string> => new Set(names.split(' '))
/** Programs that run the command behind them, with the options that take a value. */
const wrappers = listed(
  'sudo doas env nohup nice ionice time timeout stdbuf setsid xargs watch command exec builtin eval busybox chroot unshare flock taskset ssh parallel strace ltrace fakeroot caffeinate coproc',
)
/** Those whose first word is no part of the command. */
const withOperand = listed('chroot flock taskset ssh')
/** Options without a value, as letters: the word behind one begins the command. */
const switches: Readonly<Record<string, string>> = {
  sudo: 'bEHiknSs',
  env: 'i0v',
  xargs: '0prtx',
  time: 'pv',
  command: 'pvV',
}
/** Programs that run the text behind `-c`. */
const runners = listed('su runuser script flock')
const shells = /^(?:ba|z|da|k|a|c|tc|fi|mk|rba)?sh$/
/** A program in a folder that a variable names. Any other variable may stand for a command and its arguments. */
const knownFolder = /^\$(?:HOME|PWD|\{HOME\}|\{PWD\})(?=\/)/
const keywords = listed('if then elif else do while until !')
const redirection = /^(?:<<<|<<-?|<>|<&|>>|>&|>\||&>>|&>|<|>)/

const nameOf = (word: string): string => word.slice(word.lastIndexOf('/') + 1)

/** Whether a word names one program, and not what a variable or the folder decides. */
function isLiteral(word: string): boolean {
  const name = nameOf(word)
  const isTest = word === '[' || word === '[['
  return isTest || (name !== '' && !/[$`{}]/.test(word.replace(knownFolder, '')) && !/[*?[\]]/.test(name))
}

/** What a command line runs, in lower case, as it is compared with patterns. */
interface CommandTexts {
  /** The whole line, and each of its commands. */
  lines: readonly string[]
  commands: readonly string[]
  /** Whether output goes into a file. */
  writes: boolean
}

let last: { line: string; texts: CommandTexts | undefined } | undefined

/** Undefined if it cannot be said which commands a line runs. The last line is remembered: every rule asks for the same one. */
export function commandTexts(line: string): CommandTexts | undefined {
  if (last?.line !== line) last = { line, texts: readTexts(line) }
  return last.texts
}

function readTexts(line: string): CommandTexts | undefined {
  const found = commandsOf(line)
  if (!found) return undefined
  const commands = [...new Set(found.map((words) => words.join(' ').toLowerCase()))]
  return {
    lines: [...new Set([line.trim().toLowerCase(), ...commands])],
    commands,
    writes: found.some((words) => words.some((word, at) => isWriting(word, words[at + 1]))),
  }
}

/** Whether a word directs output into a file, other than `> /dev/null` and `2>&1`. */
const isWriting = (word: string, target = ''): boolean =>
  /^[0-9]?(?:&>>?|>>|>\||>&|<>|>)$/.test(word) &&
  target !== '/dev/null' &&
  !(word.endsWith('&') && /^[0-9]$/.test(target))

/**
 * Splits a command line into its simple commands, each as words without quotes: those of lists and pipes, in `$(…)` and
 * backticks, behind wrappers such as `sudo` and `timeout 5`, of `find -exec`, and the text of `sh -c`. A command with
 * redirections is there with and without them. Undefined if it cannot be said which commands run: it is too long or
 * nested, a program is named by a variable or a pattern, or a shell reads commands from a pipe.
 */
export function commandsOf(line: string): string[][] | undefined {
  const found = new Commands()
  const isKnown = unlessTooDeep(() => found.read(line, 0))
  return isKnown === true ? found.commands : undefined
}

interface Command {
  words: string[]
  /** The words and the redirections. */
  all: string[]
  /** Whether its standard input is a file or a text of the line. */
  hasInput: boolean
  /** Texts behind `<<<`. */
  texts: string[]
}

class Commands {
  readonly commands: string[][] = []
  #left = maxText

  /** Reads the commands of a line. Returns false if they are not known. */
  read(line: string, depth: number): boolean {
    if (line.length > maxCommand || depth > maxDepth) return false
    const splitter = new Splitter(line)
    splitter.split()
    for (const { words, all, hasInput, texts } of splitter.commands) {
      if (all.length > words.length && !this.#add(all)) return false
      if (!this.#unwrap(words, hasInput, depth)) return false
      // A shell reads the text as commands, other programs as data.
      const isScript = words.some((word) => shells.test(nameOf(word)))
      if (isScript && !texts.every((text) => this.read(text, depth + 1))) return false
    }
    return splitter.inner.every((text) => this.read(text, depth + 1))
  }

  #add(words: string[]): boolean {
    this.#left -= words.reduce((sum, word) => sum + word.length + 1, 0)
    if (this.commands.length >= maxCommands || this.#left < 0) return false
    this.commands.push(words)
    return true
  }

  /** Adds a command, and the one that it runs: each is what a pattern may speak of. */
  #unwrap(words: readonly string[], hasInput: boolean, depth: number): boolean {
    if (depth > maxDepth) return false
    const start = words.findIndex((word) => !/^\w+=/.test(word) && !keywords.has(word))
    if (start < 0) return true
    const command = words.slice(start)
    const program = nameOf(command[0]!)
    // What stands for each input of xargs.
    if (command[0] === '{}') return true
    if (!isLiteral(command[0]!) || !this.#add([program, ...command.slice(1)])) return false
    if (program === 'trap') return this.read(command[1] ?? '', depth + 1)
    if (program === 'git') return command.every((word) => this.#isReadAlias(word, depth))
    if (program === 'eval') return this.read(command.slice(1).join(' '), depth + 1)
    const isShell = shells.test(program)
    if (isShell || runners.has(program)) {
      const flag = command.findIndex((word, at) => at > 0 && (/^-\w*c/.test(word) || word === '--command'))
      const text = flag < 0 ? undefined : command.slice(flag + 1).find((word) => !word.startsWith('-'))
      if (text !== undefined) return this.read(text, depth + 1)
      if (isShell) return hasInput || !readsInput(command)
    }
    if (program === 'find') return this.#unwrapFind(command, depth)
    return !wrappers.has(program) || this.#unwrapWrapper(program, command, hasInput, depth)
  }

  /** `git -c alias.x='!rm -rf x' x` runs a command. */
  #isReadAlias(word: string, depth: number): boolean {
    const text = /^alias\.[^=]*=!(.*)$/s.exec(word)?.[1]
    return text === undefined || this.read(text, depth + 1)
  }

  #unwrapFind(command: readonly string[], depth: number): boolean {
    return command.every((word, at) => {
      if (!/^-(?:exec|ok)(?:dir)?$/.test(word)) return true
      const rest = command.slice(at + 1)
      const end = rest.findIndex((each) => each === ';' || each === '+')
      return this.#unwrap(end < 0 ? rest : rest.slice(0, end), false, depth + 1)
    })
  }

  /** Which options take a value differs; each position where the inner command may begin is one reading. */
  #unwrapWrapper(program: string, command: readonly string[], hasInput: boolean, depth: number): boolean {
    let operands = withOperand.has(program) ? 1 : 0
    let readings = 0
    for (let at = 1; at < command.length; at++) {
      const word = command[at]!
      // `env -S`, `watch` and others split a text into a command.
      if (/\s/.test(word)) {
        if (!this.read(word.replace(/^(?:-S|--split-string=)/, ''), depth + 1)) return false
        if (++readings > maxReadings) return false
        continue
      }
      if (word.startsWith('-') || /^\w+=/.test(word)) continue
      if (++readings > maxReadings || !this.#unwrap(command.slice(at), hasInput, depth + 1)) return false
      if (/^[\d.]+[smhd]?$/.test(word) || mayTakeValue(program, command[at - 1]!)) continue
      if (operands-- <= 0) break
    }
    return true
  }
}

function mayTakeValue(program: string, option: string): boolean {
  if (!option.startsWith('-') || option === '--') return false
  // `-n1`, `-I{}` and `--user=x` have it.
  if (/^-\w.*[^A-Za-z]/s.test(option) || option.includes('=')) return false
  const letters = Object.hasOwn(switches, program) ? switches[program]! : ''
  return ![...option.slice(1)].every((letter) => letters.includes(letter))
}

/** Whether a shell takes its commands from standard input: it has no script, or `-s`. */
function readsInput(command: readonly string[]): boolean {
  const options = command.slice(1)
  if (options.some((word) => word === '--version' || word === '--help')) return false
  return options.every((word) => word.startsWith('-')) || options.some((word) => /^-\w*s/.test(word))
}

/** Splits a line into commands and words, without looking at what they do. */
class Splitter {
  readonly commands: Command[] = []
  /** Commands in substitutions. */
  readonly inner: string[] = []
  readonly #line: string
  #command: Command = { words: [], all: [], hasInput: false, texts: [] }
  #word: string | undefined
  /** The redirection that the word belongs to, as it is written. */
  #redirected: string | undefined
  #open = 0

  constructor(line: string) {
    this.#line = line
  }

  split(): void {
    const line = this.#line
    for (let at = 0; at < line.length; at++) {
      const sign = line[at]!
      const next = line[at + 1]
      if (sign === '\\') {
        at += 1
        if (next !== '\n') this.#append(next ?? '')
      } else if (sign === "'") {
        const end = line.indexOf("'", at + 1)
        this.#append(line.slice(at + 1, end < 0 ? undefined : end))
        at = end < 0 ? line.length : end
      } else if (sign === '$' && next === "'") {
        const { text, end } = ansiQuoted(line, at + 2)
        this.#append(text)
        at = end
      } else if (sign === '"' || (sign === '$' && next === '"')) {
        const from = sign === '"' ? at + 1 : at + 2
        const end = endOfQuoted(line, from)
        const text = line.slice(from, end)
        this.inner.push(...substitutionsOf(text))
        this.#append(unquoted(text))
        at = end
      } else if (isSubstitution(line, at)) {
        const end = endOfSubstitution(line, at)
        this.inner.push(...commandsIn(line, at, end))
        this.#append(line.slice(at, end + 1))
        at = end
      } else if (sign === '<' || sign === '>' || (sign === '&' && next === '>')) {
        at += this.#redirect(redirection.exec(line.slice(at, at + 3))![0])
      } else if (sign === '#' && this.#word === undefined) {
        const end = line.indexOf('\n', at)
        at = end < 0 ? line.length : end - 1
      } else if (/\s/.test(sign) && sign !== '\n') this.#endWord()
      else if (/[\n;&|()]/.test(sign) || this.#isGroup(sign, next)) this.#endCommand(sign)
      else this.#append(sign)
    }
    this.#endCommand('')
  }

  /** A brace that stands alone; others belong to words, such as `{a,b}` and `{}`. */
  #isGroup(sign: string, next: string | undefined): boolean {
    if (this.#word !== undefined) return false
    if (sign === '{') return this.#command.words.length === 0 && (next === undefined || /\s/.test(next))
    return sign === '}' && (next === undefined || /[\s;&|)<>]/.test(next))
  }

  #append(text: string): void {
    this.#word = (this.#word ?? '') + text
  }

  /** Begins a redirection. Returns how many signs beyond the first it takes. */
  #redirect(operator: string): number {
    const isNumbered = this.#word !== undefined && /^\d+$/.test(this.#word)
    const number = isNumbered ? this.#word! : ''
    if (isNumbered) this.#word = undefined
    this.#endWord()
    this.#redirected = number + operator
    if (operator.startsWith('<')) this.#command.hasInput = true
    return operator.length - 1
  }

  #endWord(): void {
    if (this.#word === undefined) return
    const { words, all, texts } = this.#command
    if (this.#redirected === undefined) words.push(this.#word)
    else if (this.#redirected.endsWith('<<<')) texts.push(this.#word)
    if (this.#redirected !== undefined) all.push(this.#redirected)
    all.push(this.#word)
    this.#word = undefined
    this.#redirected = undefined
  }

  #endCommand(sign: string): void {
    this.#endWord()
    this.#redirected = undefined
    if (sign === '(') this.#open += 1
    // One that closes nothing ends a pattern of `case`.
    const isPattern = sign === ')' && this.#open === 0
    if (sign === ')' && this.#open > 0) this.#open -= 1
    if (this.#command.all.length > 0 && !isPattern) this.commands.push(this.#command)
    this.#command = { words: [], all: [], hasInput: false, texts: [] }
  }
}
