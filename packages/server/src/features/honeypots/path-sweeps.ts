import { type ShellWord, simpleCommands } from './path-words.ts'

/** Maximum number of quoted texts parsed as commands (`sh -c "…"`); honest commands have fewer. */
const maxScripts = 16

/** A folder whose whole content a command reads. */
interface Sweep {
  folder: string
  /** Folder given with `-C` (`tar`, `git`), from which `folder` is resolved; undefined: the working folder. */
  from: string | undefined
}

/** Words before the command that does the work: wrappers, shell keywords, assignments, options. */
const introductions =
  /^(?:sudo|doas|env|command|builtin|exec|nohup|time|nice|ionice|timeout|xargs|then|do|else|if|while|until|!|\{|\d+[smh]?|[A-Za-z_]\w*=.*|-.*)$/s

interface Arguments {
  options: string[]
  operands: string[]
  /** The value of -C. */
  from: string | undefined
}

interface Reader {
  /** Letters of short options that take the next word as their value. */
  valued?: string
  /** Returns the folders read with their whole content. */
  folders(given: Arguments): string[]
}

const short = (options: readonly string[], letters: RegExp): boolean =>
  options.some((option) => /^-[A-Za-z]/.test(option) && !option.startsWith('--') && letters.test(option.slice(1)))
const long = (options: readonly string[], names: RegExp): boolean => options.some((option) => names.test(option))

const orHere = (folders: string[]): string[] => (folders.length > 0 ? folders : ['.'])
const allButLast = (operands: string[]): string[] => (operands.length > 1 ? operands.slice(0, -1) : [])

const copier: Reader = {
  folders({ options, operands }) {
    const isRecursive = short(options, /[rRa]/) || long(options, /^--(?:recursive|archive)/)
    if (!isRecursive) return []
    return long(options, /^(?:-t|--target-directory)/) ? operands : allButLast(operands)
  },
}
const tar: Reader = {
  valued: 'fbTX',
  folders({ options, operands }) {
    const isLong = long(options, /^--(?:create|append|update|catenate|concatenate)$/)
    if (isLong || (short(options, /[cru]/) && !short(options, /[xt]/))) return operands
    const [bundle = '', ...others] = operands
    return options.length === 0 && /^[A-Za-z]*[cru][A-Za-z]*$/.test(bundle) ? others : []
  },
}
const withoutPattern = ({ options, operands }: Arguments): string[] =>
  orHere(short(options, /[ef]/) || long(options, /^--(?:regexp|file|files)/) ? operands : operands.slice(1))
const grep: Reader = {
  valued: 'ABCmefdD',
  folders: (given) =>
    short(given.options, /[rR]/) || long(given.options, /^--(?:dereference-)?recursive/) ? withoutPattern(given) : [],
}
const searcher: Reader = { valued: 'ABCmefgtTE', folders: withoutPattern }
const sevenZip: Reader = { folders: ({ operands }) => (operands[0] === 'a' ? operands.slice(2) : []) }

const readers: Readonly<Record<string, Reader>> = {
  tar,
  bsdtar: tar,
  gtar: tar,
  cp: copier,
  scp: copier,
  rsync: { ...copier, valued: 'efB' },
  mv: { folders: ({ operands }) => allButLast(operands) },
  grep,
  egrep: grep,
  fgrep: grep,
  zgrep: grep,
  rgrep: searcher,
  rg: searcher,
  ag: searcher,
  ack: searcher,
  fd: searcher,
  fdfind: searcher,
  zip: { folders: ({ options, operands }) => (short(options, /r/) ? operands.slice(1) : []) },
  '7z': sevenZip,
  '7za': sevenZip,
  ln: {
    folders: ({ options, operands }) =>
      short(options, /s/) || long(options, /^--symbolic/)
        ? allButLast(operands).length > 0
          ? allButLast(operands)
          : operands
        : [],
  },
}

/** Returns the commands in a text and in its quoted scripts. */
export function allCommands(text: string): ShellWord[][] {
  const commands = simpleCommands(text)
  const scripts = commands.flatMap((words) => words.map(({ plain }) => plain)).filter((word) => /\s/.test(word))
  return [...commands, ...scripts.slice(0, maxScripts).flatMap(simpleCommands)]
}

/** Returns the folders whose whole content the commands in a text read. */
export function sweeps(text: string): Sweep[] {
  return allCommands(text).flatMap(sweptBy)
}

const nameOf = (program: string): string => program.split('/').at(-1)!.toLowerCase()
const isReader = (program: string): boolean => nameOf(program) === 'find' || Object.hasOwn(readers, nameOf(program))

function sweptBy(command: readonly ShellWord[]): Sweep[] {
  const words = command.map(({ plain, escaped }) => (/^[A-Za-z]:\\/.test(escaped) ? escaped : plain))
  const first = words.findIndex((word) => !introductions.test(word))
  if (first < 0) return []
  // `sudo -u build tar …`: an option before the command may have a value.
  const start = words[first - 1]?.startsWith('-') && !isReader(words[first]!) ? first + 1 : first
  const verb = nameOf(words[start] ?? '')
  if (verb === 'find') return foundBy(words.slice(start + 1))
  if (!Object.hasOwn(readers, verb)) return []
  const reader = readers[verb]!
  const given = argumentsOf(words.slice(start + 1), reader.valued ?? '')
  return reader.folders(given).map((folder) => ({ folder, from: given.from }))
}

/** Start folders of `find`: the arguments before its first test. */
function foundBy(words: readonly string[]): Sweep[] {
  const starts = words.filter((word) => !/^-(?:[HLPD]|O\d)$/.test(word))
  const end = starts.findIndex((word) => /^[-!]/.test(word))
  return orHere(end < 0 ? starts : starts.slice(0, end)).map((folder) => ({ folder, from: undefined }))
}

function argumentsOf(words: readonly string[], valued: string): Arguments {
  const given: Arguments = { options: [], operands: [], from: undefined }
  let isOver = false
  for (let place = 0; place < words.length; place++) {
    const word = words[place]!
    if (isOver || !word.startsWith('-') || word === '-') given.operands.push(word)
    else if (word === '--') isOver = true
    else if (word === '-C') given.from = words[++place]
    else if (word.startsWith('--directory=')) given.from = word.slice(12)
    else {
      given.options.push(word)
      const last = word.at(-1)!
      if (!word.startsWith('--') && valued.includes(last)) place++
    }
  }
  return given
}
