import { useEffect } from 'react'

/** The title of the tab says what the page says. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title.replace(/\.$/, '')} · Wardline`
  }, [title])
}
