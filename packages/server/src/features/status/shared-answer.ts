/** Pause between two answers, so that many requests for the status do not occupy the process. */
const restMs = 50

/**
 * Shares an answer that is the same for all callers. One answer is computed at a time, and serves all callers that were
 * waiting when it was started, so that a caller after a change sees that change. Waiting callers share a failure, since
 * a second wait for a database that is down would take too long.
 */
export class SharedAnswer<Answer> {
  readonly #make: () => Promise<Answer>
  #isBusy = false
  /** The next answer, for callers that arrived after the current one was started. */
  #next: PromiseWithResolvers<Answer> | undefined

  constructor(make: () => Promise<Answer>) {
    this.#make = make
  }

  read(): Promise<Answer> {
    if (!this.#isBusy) return this.#begin()
    this.#next ??= Promise.withResolvers()
    return this.#next.promise
  }

  #begin(): Promise<Answer> {
    this.#isBusy = true
    const answer = this.#make()
    answer.then(
      () => {
        if (this.#next) setTimeout(() => this.#beginNext(), restMs)
        else this.#isBusy = false
      },
      (fault) => {
        this.#isBusy = false
        this.#next?.reject(fault)
        this.#next = undefined
      },
    )
    return answer
  }

  #beginNext(): void {
    const { resolve, reject } = this.#next!
    this.#next = undefined
    this.#begin().then(resolve, reject)
  }
}
