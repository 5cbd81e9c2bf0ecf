// Parses the fenced blocks of a document and the instructions in HTML comments above them:
//
//   <!-- not run: needs a Slack webhook -->           the reason is mandatory
//   <!-- leave out: npm test = it takes an hour -->   one line of the block, and the reason
//   <!-- run in the background -->                    a service; the walk continues once it responds
//   <!-- run after: in_background npm start -->       commands that a reader has already run, in the same shell
//   <!-- run with: 01a1… = $(wardline … | head -1) --> a replacement for a value that differs each time
//   <!-- stored as: ~/.config/… -->                   the file in which the text tells the reader to store the block
//
// Readers do not see these comments, so they must not contain a step that a reader needs.

export interface Block {
  language: string
  /** Line numbers of the two fences, from 1. */
  open: number
  close: number
  text: string
  notRun: string | undefined
  /** Single-line commands that are not run. */
  leftOut: string[]
  inBackground: boolean
  after: string[]
  storedAs: string | undefined
  /** Text as printed in the document, and the command that prints its actual value. */
  values: [shown: string, command: string][]
}

const fence = /^( *)```(\w*)\s*$/
const comment = /^\s*<!--\s*(.*?)\s*-->\s*$/

/** Returns the comments that end directly above a line. */
function commentsAbove(lines: string[], open: number): string[] {
  const found: string[] = []
  for (let index = open - 2; index >= 0; index--) {
    const text = comment.exec(lines[index]!)?.[1]
    if (text !== undefined) found.unshift(text)
    else if (lines[index]!.trim() !== '') break
  }
  return found
}

/** Returns the command of `command = reason`. */
function leftOut({ open, text }: Block, argument: string): string {
  const [command = '', reason = ''] = argument.split(/ = (.*)/s)
  if (command === '' || reason === '') throw new Error(`line ${open}: "leave out" needs "command = reason"`)
  if (!text.split('\n').some((line) => isCommand(line, command)))
    throw new Error(`line ${open}: the block has no line with the command ${command}, which is left out`)
  return command
}

/** Whether a line of a block is this command, with or without a trailing comment. */
export const isCommand = (line: string, command: string): boolean => line.replace(/\s+# .*/, '') === command

function withComments(block: Block, comments: string[]): Block {
  for (const text of comments) {
    const [, name, argument = ''] =
      /^(not run|leave out|run in the background|run after|run with|stored as)(?::\s*(.+))?$/s.exec(text) ?? []
    if (name === 'not run') block.notRun = argument
    else if (name === 'leave out') block.leftOut.push(leftOut(block, argument))
    else if (name === 'run in the background') block.inBackground = true
    else if (name === 'run after' && argument !== '') block.after.push(argument)
    else if (name === 'stored as') block.storedAs = argument
    else if (name === 'run with' && argument.includes(' = ')) {
      const [shown = '', command = ''] = argument.split(/ = (.*)/s)
      block.values.push([shown, command])
    } else throw new Error(`line ${block.open}: the comment "${text}" above the block is none that the walk knows`)
  }
  if (block.notRun === '') throw new Error(`line ${block.open}: "not run" needs a reason`)
  return block
}

export function blocksOf(document: string): Block[] {
  const lines = document.split('\n')
  const blocks: Block[] = []
  for (let open = 1; open <= lines.length; open++) {
    const [, indent = '', language = ''] = fence.exec(lines[open - 1]!) ?? []
    if (!fence.test(lines[open - 1]!)) continue
    let close = open + 1
    while (close <= lines.length && lines[close - 1] !== `${indent}\`\`\``) close++
    if (close > lines.length) throw new Error(`line ${open}: the block has no end`)
    const text = lines
      .slice(open, close - 1)
      .map((line) => line.slice(indent.length))
      .join('\n')
    const block = {
      language,
      open,
      close,
      text,
      notRun: undefined,
      leftOut: [],
      inBackground: false,
      after: [],
      storedAs: undefined,
      values: [],
    }
    blocks.push(withComments(block, commentsAbove(lines, open)))
    open = close
  }
  return blocks
}

export interface Answer {
  /** First line in the document. */
  line: number
  expected: string[]
}

/** Comment lines directly below a command are its output; a comment after an empty line explains the next command. */
export function answersOf(block: Block): Answer[] {
  const answers: Answer[] = []
  let isBelowCommand = false
  for (const [index, line] of block.text.split('\n').entries()) {
    const isComment = /^#( |$)/.test(line)
    if (isComment && isBelowCommand) {
      const last = answers.at(-1)
      const place = block.open + 1 + index
      if (last !== undefined && last.line + last.expected.length === place) last.expected.push(line.slice(2))
      else answers.push({ line: place, expected: [line.slice(2)] })
    }
    if (!isComment) isBelowCommand = line.trim() !== ''
  }
  return answers
}

/** Converts the document's text to a pattern in which `…` matches any text. */
export const pattern = (text: string): RegExp =>
  new RegExp(
    `^${text
      .split('…')
      .map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
      .join('.+')}$`,
    's',
  )
