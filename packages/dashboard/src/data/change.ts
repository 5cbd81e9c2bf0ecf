import { type QueryKey, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import type { HelpedError } from '../ui/panel.tsx'
import { say } from '../ui/toast.ts'
import { needsConfirmation } from './client.ts'
import { confirmAddress } from './sign-in.ts'

const confirmation: NonNullable<HelpedError['help']> = { href: confirmAddress, label: 'Confirm that it is you' }

interface ChangeOptions {
  /** Subjects that are read again afterwards. */
  changes: readonly QueryKey[]
}

interface Change {
  isBusy: boolean
  /** Why the last run failed; undefined after a success and while it runs. */
  fault: Error | undefined
  /**
   * Runs the work, unless the last one is still running, then says `done`, or the sentence that the work resolves with.
   * Resolves with whether it succeeded. The signal aborts when the component is gone.
   */
  run(work: (signal: AbortSignal) => Promise<unknown>, done?: string): Promise<boolean>
}

/**
 * The one way to change something: busy while it runs, a toast with the result, or the fault for the caller to show where
 * the person acted. Keeps nothing that was sent, because it may contain secrets.
 */
export function useChange({ changes }: ChangeOptions): Change {
  const client = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [fault, setFault] = useState<Error>()

  const stop = useRef<AbortController>(undefined)
  useEffect(() => () => stop.current?.abort(), [])

  async function run(work: (signal: AbortSignal) => Promise<unknown>, done?: string): Promise<boolean> {
    if (isBusy) return false
    setBusy(true)
    setFault(undefined)
    let isDone = false
    try {
      stop.current = new AbortController()
      const result = await work(stop.current.signal)
      isDone = true
      const sentence = done ?? result
      if (typeof sentence === 'string') say(sentence)
    } catch (problem) {
      setFault(needsConfirmation(problem) ? Object.assign(problem, { help: confirmation }) : (problem as Error))
    }
    setBusy(false)
    // Also after a failure, because another operator may have been faster.
    await Promise.all(changes.map((queryKey) => client.invalidateQueries({ queryKey })))
    return isDone
  }
  return { isBusy, fault, run }
}

interface FormChangeOptions extends ChangeOptions {
  /** Resolves with what was done. */
  save(form: FormData): Promise<string>
  onClose(): void
}

/** Props of a `FormDialog` that changes something and closes after a success. */
export function useFormChange({ changes, save, onClose }: FormChangeOptions) {
  const { isBusy, fault, run } = useChange({ changes })
  const onSubmit = async (form: FormData) => {
    if (await run(() => save(form))) onClose()
  }
  return { isBusy, fault, onClose, onSubmit: (form: FormData) => void onSubmit(form) }
}
