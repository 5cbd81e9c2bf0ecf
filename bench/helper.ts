import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { killAtExit } from './cleanup.ts'

/** A child process of the benchmark that performs one kind of task on request. */
type Helper<Task, Reply> = { pid: number; ask(task: Task): Promise<Reply>; stop(): void }

type Question<Task> = { number: number; task: Task }
type Answer<Reply> = { number: number; reply?: Reply; error?: string }

/**
 * Starts `file` (in this folder) in a separate process, so that its work does not use this process's time. `ask`
 * rejects if the task throws or the process exits before it has responded.
 */
export function startHelper<Task, Reply>(file: string): Helper<Task, Reply> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  killAtExit(child)
  const waiting = new Map<number, { resolve(reply: Reply): void; reject(error: Error): void }>()
  let asked = 0
  child.on('message', (answer: Answer<Reply>) => {
    const caller = waiting.get(answer.number)
    waiting.delete(answer.number)
    if (answer.error === undefined) caller?.resolve(answer.reply as Reply)
    else caller?.reject(new Error(`${file}: ${answer.error}`))
  })
  child.on('exit', (code, signal) => {
    for (const caller of waiting.values()) caller.reject(new Error(`${file} ended early (${signal ?? code})`))
    waiting.clear()
  })
  return {
    pid: child.pid!,
    ask: (task) =>
      new Promise((resolve, reject) => {
        const number = ++asked
        waiting.set(number, { resolve, reject })
        const question: Question<Task> = { number, task }
        child.send(question, (error) => error && reject(error))
      }),
    stop: () => void child.kill('SIGKILL'),
  }
}

/** Called once by a helper's file, in the child process, which exits when the benchmark does. */
export function answerTasks<Task, Reply>(perform: (task: Task) => Reply | Promise<Reply>): void {
  process.on('message', async ({ number, task }: Question<Task>) => {
    const answer: Answer<Reply> = { number }
    try {
      answer.reply = await perform(task)
    } catch (error) {
      answer.error = error instanceof Error ? (error.stack ?? error.message) : String(error)
    }
    process.send!(answer)
  })
  process.on('disconnect', () => process.exit())
}
