import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isExternal, needsOwnProcess, newDataDir, until } from './service.ts'

/** Why system calls cannot be recorded here; undefined if they can. */
export function recordingFault(): string | undefined {
  if (isExternal) return needsOwnProcess
  if (process.platform !== 'linux') return 'strace is a tool of Linux'
  const probe = spawnSync('strace', ['-f', '--seccomp-bpf', '-e', 'trace=fdatasync', 'true'])
  return probe.status === 0 ? undefined : 'strace is missing, or may not trace here'
}

/** A file or folder, which may have several names or none. */
export interface Inode {
  isFolder: boolean
  /** Its first name. */
  path: string
  /** What the recording began with. */
  content: Buffer
}

/** Half lines of the trace: a call has begun at `begin`, and its result is known at `end`. */
interface Span {
  begin: number
  end: number
}

/** Changes the content of a file. */
export type FileCall = Span & { inode: Inode } & (
    | { kind: 'write'; offset: number; data: Buffer }
    | { kind: 'truncate'; length: number }
  )
/** Changes the names in a folder: without an inode, the name is removed. */
export type NameCall = Span & { kind: 'names'; folder: string; names: [path: string, inode: Inode | undefined][] }
export type SyncCall = Span & { kind: 'sync'; inode: Inode }
/** An answer that leaves, and the request that arrived at `asked`. */
export type AnswerCall = Span & { kind: 'answer'; request: string; asked: number; status: number; body: string }
export type Call = FileCall | NameCall | SyncCall | AnswerCall

const traced = [
  ...['openat', 'open', 'creat', 'mkdir', 'mkdirat', 'rmdir', 'close', 'mmap', 'read', 'write', 'writev', 'pwrite64'],
  ...['pwritev', 'pwritev2', 'ftruncate', 'truncate', 'fallocate', 'copy_file_range', 'sendfile', 'rename', 'renameat'],
  ...['renameat2', 'link', 'linkat', 'symlink', 'symlinkat', 'unlink', 'unlinkat', 'fsync', 'fdatasync'],
]
/** Changes of files that this reader does not understand, and that neither SQLite nor Node makes in the data folder. */
const unknown =
  /^(pwritev2?|truncate|fallocate|copy_file_range|sendfile|symlink|symlinkat|linkat|renameat2?|creat|mkdirat|unlinkat|rmdir)$/

/** Files that need not survive: SQLite rebuilds its index of the log, and nothing reads what the reserve contains. */
const isLeftOut = (path: string) => /-shm$|\/reserve$/.test(path)

const decode = (text: string) => Buffer.from(text.replaceAll('\\x', ''), 'hex')
const decodePath = (text: string) => decode(text).toString()

interface OpenFile {
  inode: Inode
  position: number
  appends: boolean
}

/** The changes that processes make below a folder, and the answers that they send, as strace sees them. */
export class RecordedCalls {
  readonly calls: Call[] = []
  /** Runs a process whose calls are recorded. */
  readonly wrapper: string[]
  /** What was there when the recording began. */
  readonly first: [path: string, inode: Inode][] = []
  readonly #root: string
  readonly #output = join(newDataDir(), 'trace')
  readonly #names = new Map<string, Inode>()
  readonly #open = new Map<string, OpenFile>()
  readonly #requests = new Map<string, { request: string; asked: number }[]>()
  #line = 0

  constructor(root: string) {
    this.#root = root
    this.#addFolder(root)
    // -D keeps the traced process a direct child. Without -ff, which would write a file for each thread. In hexadecimal
    // nothing needs to be unescaped. Descriptors are printed with what they lead to.
    const form = ['-D', '-f', '--seccomp-bpf', '-y', '-xx', '-s', String(1024 ** 2)]
    this.wrapper = ['strace', ...form, '-e', `trace=${traced.join(',')}`, '-o', this.#output]
  }

  #addFolder(folder: string): void {
    this.#addFirst(folder, { isFolder: true, path: folder, content: Buffer.alloc(0) })
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) this.#addFolder(path)
      else if (!isLeftOut(path)) this.#addFirst(path, { isFolder: false, path, content: readFileSync(path) })
    }
  }

  #addFirst(path: string, inode: Inode): void {
    this.first.push([path, inode])
    this.#names.set(path, inode)
  }

  /** Whether the recorded process has ended, and its last line is written. */
  #hasEnded(): boolean {
    return /\+\+\+ exited .*\+\+\+\s*$/.test(readFileSync(this.#output).subarray(-200).toString())
  }

  /** Adds what a process did that ends now. */
  async add(): Promise<void> {
    await until(
      'the end of the trace',
      () => this.#hasEnded(),
      (isOver) => isOver,
    )
    const begun = new Map<string, { text: string; line: number }>()
    this.#open.clear()
    for (const text of readFileSync(this.#output, 'latin1').split('\n')) {
      this.#line += 1
      const [, thread = '', call = ''] = /^(\d+) +(.*)$/.exec(text) ?? []
      if (call.endsWith('<unfinished ...>')) {
        begun.set(thread, { text: call.slice(0, -'<unfinished ...>'.length), line: this.#line })
        continue
      }
      const rest = /^<\.\.\. \w+ resumed>(.*)$/.exec(call)?.[1]
      const start = rest === undefined ? { text: '', line: this.#line } : begun.get(thread)
      if (!start) continue
      // The result of a call that was not interrupted is known half a line later.
      const span = { begin: 2 * start.line, end: 2 * this.#line + 1 }
      const whole = start.text + (rest ?? call)
      const [, name = '', args = '', result = ''] = /^(\w+)\((.*)\) += (-?\w+)[^"]*$/.exec(whole) ?? []
      if (name !== '' && !result.startsWith('-')) this.#take(name, args, Number(result), span)
    }
    this.calls.sort((one, other) => one.begin - other.begin)
    rmSync(this.#output)
  }

  #take(name: string, args: string, result: number, span: Span): void {
    const strings = () => [...args.matchAll(/"([^"]*)"(\.\.\.)?/g)].map(([, text]) => decode(text!))
    const [, descriptor = '', target = ''] = /^(\d+)<([^>]*)>/.exec(args) ?? []
    if (target.startsWith('socket:') || target.startsWith('\\x73\\x6f\\x63\\x6b\\x65\\x74\\x3a')) {
      if (/^(read|write|writev)$/.test(name)) this.#takeMessage(name === 'read', target, Buffer.concat(strings()), span)
      return
    }
    if (name === 'close') this.#open.delete(descriptor)
    else if (name === 'openat' || name === 'open') this.#takeOpen(args, result, span)
    else if (/^(mkdir|link|unlink|rename)$/.test(name)) this.#takeNames(name, strings().map(String), span)
    else if (name === 'mmap') this.#refuseSharedMapping(args)
    else if (unknown.test(name)) this.#refuseUnknown(name, args, target)
    else this.#takeFile(name, args, { file: this.#open.get(descriptor), result, span })
  }

  #isInside(path: string): boolean {
    return path.startsWith(`${this.#root}/`) && !isLeftOut(path)
  }

  #refuseUnknown(name: string, args: string, target: string): void {
    const paths = [target, ...[...args.matchAll(/"([^"]*)"/g)].map(([, text]) => text!)].map(decodePath)
    if (paths.some((path) => this.#isInside(path))) throw new Error(`${name} of ${paths} is not understood.`)
  }

  /** Writes through memory would not be seen. */
  #refuseSharedMapping(args: string): void {
    const path = decodePath(/MAP_SHARED\b[^<]*<([^>]*)>/.exec(args)?.[1] ?? '')
    if (args.includes('PROT_WRITE') && this.#isInside(path)) throw new Error(`${path} is mapped to be written.`)
  }

  #takeOpen(args: string, descriptor: number, span: Span): void {
    const [, text = '', flags = ''] = /"([^"]*)", ([A-Z_|]+)/.exec(args) ?? []
    const path = decodePath(text)
    if (path !== this.#root && !this.#isInside(path)) return void this.#open.delete(String(descriptor))
    let inode = this.#names.get(path)
    if (!inode) {
      inode = { isFolder: false, path, content: Buffer.alloc(0) }
      this.#rename([[path, inode]], span)
    } else if (flags.includes('O_TRUNC')) this.calls.push({ kind: 'truncate', inode, length: 0, ...span })
    this.#open.set(String(descriptor), { inode, position: 0, appends: flags.includes('O_APPEND') })
  }

  #takeNames(name: string, paths: string[], span: Span): void {
    const [from = '', to = ''] = paths
    if (!paths.some((path) => this.#isInside(path))) return
    if (to !== '' && dirname(from) !== dirname(to)) throw new Error(`${name} from ${from} to another folder`)
    if (name === 'mkdir') this.#rename([[from, { isFolder: true, path: from, content: Buffer.alloc(0) }]], span)
    if (name === 'unlink') this.#rename([[from, undefined]], span)
    const inode = this.#names.get(from)
    if (name === 'link') this.#rename([[to, inode]], span)
    if (name === 'rename')
      this.#rename(
        [
          [from, undefined],
          [to, inode],
        ],
        span,
      )
  }

  #rename(names: NameCall['names'], span: Span): void {
    for (const [path, inode] of names) {
      if (inode) this.#names.set(path, inode)
      else this.#names.delete(path)
    }
    this.calls.push({ kind: 'names', folder: dirname(names[0]![0]), names, ...span })
  }

  #takeFile(name: string, args: string, call: { file: OpenFile | undefined; result: number; span: Span }): void {
    const { file, result, span } = call
    if (!file) return
    const { inode } = file
    const numbers = args.slice(args.lastIndexOf('"') + 1)
    if (name === 'fsync' || name === 'fdatasync') this.calls.push({ kind: 'sync', inode, ...span })
    if (name === 'ftruncate')
      this.calls.push({ kind: 'truncate', inode, length: Number(/, (\d+)/.exec(args)![1]), ...span })
    if (name === 'writev') throw new Error(`writev to ${inode.path} is not understood.`)
    if (name !== 'write' && name !== 'pwrite64') return
    if (numbers.startsWith('...') || file.appends) throw new Error(`A write to ${inode.path} is not understood.`)
    const data = decode(/"([^"]*)"/.exec(args)![1]!).subarray(0, result)
    const offset = name === 'write' ? file.position : Number(/, \d+, (\d+)/.exec(numbers)![1])
    if (name === 'write') file.position += result
    this.calls.push({ kind: 'write', inode, offset, data, ...span })
  }

  /** The requests of a connection are answered in their order. */
  #takeMessage(isRequest: boolean, socket: string, data: Buffer, span: Span): void {
    const text = data.toString('latin1')
    const requests = this.#requests.get(socket) ?? []
    this.#requests.set(socket, requests)
    const request = isRequest ? /^[A-Z]+ \S+(?= HTTP\/1)/.exec(text)?.[0] : undefined
    if (request) requests.push({ request, asked: span.end })
    const [, status] = (!isRequest && /^HTTP\/1\.1 (\d{3})/.exec(text)) || []
    if (status === undefined || requests.length === 0) return
    const body = text.slice(text.indexOf('\r\n\r\n') + 4)
    this.calls.push({ kind: 'answer', ...requests.shift()!, status: Number(status), body, ...span })
  }
}
