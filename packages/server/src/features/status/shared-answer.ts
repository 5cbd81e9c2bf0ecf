/** Pause between two answers: many requests for a status must not occupy the process. */
const restMs = 50

/**
 * An answer that is the same for all callers. One is made at a time, and serves all callers who asked before it was
 * started: a caller after a change sees that change. All share a failure, since a second wait for a database that is
 * down would take too long.
 */
export class SharedAnswer<Answer> {
  readonly #make: () => Promise<Answer>
  #isBusy = false
  /** Not begun yet. */
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
