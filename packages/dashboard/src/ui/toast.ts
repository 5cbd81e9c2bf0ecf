import { Toast } from '@base-ui/react/toast'

export const toasts = Toast.createToastManager()

/** Said before the toaster was loaded: the manager drops them. */
let early: string[] | undefined = []

/** Says that something was done, in a sentence that goes away by itself. What failed is said where the person acted. */
export const say = (sentence: string): void => void (early?.push(sentence) ?? toasts.add({ title: sentence }))

/** Called when the toaster is shown. */
export function sayEarly(): void {
  const said = early ?? []
  early = undefined
  for (const sentence of said) say(sentence)
}
