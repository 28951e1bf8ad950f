"""One answer in Markdown -> what a chat platform takes."""
