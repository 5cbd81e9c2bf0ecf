import { useEffect } from 'react'

/** Sets the tab's title to the page's heading. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title.replace(/\.$/, '')} · Wardline`
  }, [title])
}
