"""Publishing: folders of boards to what people read, cite and load."""
