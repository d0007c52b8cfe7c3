/** Two looks and the jump between them. */
export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <path d="M7 21 C 9 7, 22 5, 25 13" fill="none" stroke="currentColor" stroke-width="2.2" stroke-dasharray="3 3" />
      <circle cx="7" cy="23" r="4" fill="none" stroke="currentColor" stroke-width="2.2" />
      <circle cx="25" cy="18" r="5" fill="currentColor" />
    </svg>
  );
}
